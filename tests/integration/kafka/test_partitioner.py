"""Keys go where Java clients and Spark put them."""

from pyspark.sql import functions as f

from tests.support.seed import random_source


def test_ten_thousand_keys_stand_in_the_partitions_that_the_java_client_chooses(spark, cluster, stack, new_topic):
    source = random_source("partitioner")
    keys = {bytes(source.randbytes(source.choice([1, 2, 3, 4, 7, 16, 40]))) for _ in range(20_000)}
    keys = set(sorted(keys)[:10_000])
    assert len(keys) == 10_000
    ours, javas = new_topic(partitions=7), new_topic(partitions=7)

    cluster.produce(ours, ((key, b"") for key in keys))
    frame = spark.createDataFrame([(bytearray(key),) for key in keys], "key binary").withColumn("value", f.lit(b""))
    frame.write.format("kafka").options(**{"kafka.bootstrap.servers": stack.bootstrap_servers, "topic": javas}).save()

    assert partition_of_keys(cluster, ours) == partition_of_keys(cluster, javas)
    assert set(partition_of_keys(cluster, javas)) == keys


def partition_of_keys(cluster, topic):
    return {message.key(): message.partition() for message in cluster.messages(topic)}
