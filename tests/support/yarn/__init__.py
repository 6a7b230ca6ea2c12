"""A real YARN on this machine, of Hadoop's own mini cluster: a resource manager and two node managers in one JVM, whose
containers are processes. Its archives are locked apart from the product's: `python -m tests.support.yarn.archives`."""

from tests.support.yarn.cluster import YarnCluster, yarn_cluster

__all__ = ["YarnCluster", "yarn_cluster"]
