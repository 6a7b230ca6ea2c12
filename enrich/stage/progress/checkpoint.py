"""The folder of a stage's checkpoint, on any file system that Spark can reach, and the marker that asks the stage to
stop."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from enrich.base.errors import Unreachable
from enrich.stage.java import java_class

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
_RENAMING = f"{_MANAGERS}.FileSystemBasedCheckpointFileManager"
_RENAME_SAFE = ("file", "hdfs")

_PATH = "org.apache.hadoop.fs.Path"

STOP_MARKER = "enrich-stop"
_NOT_FOUND = "FileNotFoundException"
_EXISTS = "FileAlreadyExistsException"


def choose_file_manager(spark: SparkSession, uri: str) -> None:
    """If renames are atomic, the file manager that relies on them takes half of the time of the default one (ADR 0021).
    A manager that the user configured stays."""
    scheme = java_class(_PATH)(uri).toUri().getScheme()
    if scheme is None:
        # The default file system: on a cluster that may be an object store.
        configuration = spark._jsc.hadoopConfiguration()
        scheme = java_class("org.apache.hadoop.fs.FileSystem").getDefaultUri(configuration).getScheme()
    if scheme in _RENAME_SAFE and spark.conf.get(_MANAGER, None) is None:
        spark.conf.set(_MANAGER, _RENAMING)


class Checkpoint:
    """A checkpoint, accessed through Hadoop's file systems as Spark does."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._uri = uri
        self._path_class = java_class(_PATH)
        self._folder = self._path_class(uri)
        self._text = java_class("org.apache.commons.io.IOUtils")
        # Texts must be written atomically, so they are written as Spark writes its own progress.
        manager = java_class(f"{_MANAGERS}.CheckpointFileManager")
        with self._reaching():
            self._files = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())
            settings = spark._jsparkSession.sessionState().newHadoopConf()
            if settings.get(_MANAGER) == _RENAMING:
                # The renaming manager is for files that are written once: it neither replaces an existing file nor
                # reports that there is one.
                settings.unset(_MANAGER)
            self._atomic = manager.create(self._folder, settings)

    @property
    def where(self) -> str:
        """The folder with its file system and its whole path, for people."""
        return str(self._files.makeQualified(self._folder).toString())

    @property
    def beside(self) -> str:
        """The name of a text beside the folder. It survives if somebody deletes the checkpoint."""
        return f"../{self._folder.getName()}.versions"

    def has_progress(self) -> bool:
        """Whether a query recorded a batch here."""
        return bool(self.batches("offsets"))

    def batches(self, name: str) -> list[int]:
        """The batches for which a folder of the checkpoint has a file, in ascending order."""
        with self._reaching():
            folder = self._path(name)
            if not self._files.exists(folder):
                return []
            names = (str(status.getPath().getName()) for status in self._files.listStatus(folder))
            return sorted(int(name) for name in names if name.isdigit())

    def delete(self, name: str) -> None:
        with self._reaching():
            self._atomic.delete(self._path(name))

    def is_stop_requested(self) -> bool:
        return self.stop_marked_at() is not None

    def stop_marked_at(self) -> int | None:
        """When the marker was written, by the file system's clock; None if there is none."""
        with self._reaching():
            marker = self._path(STOP_MARKER)
            with _until_it_is_gone():
                if self._files.exists(marker):
                    return int(self._files.getFileStatus(marker).getModificationTime())
        return None

    def request_stop(self) -> None:
        # Written atomically: a stage that sees the marker deletes it at once.
        self.write(STOP_MARKER, "")

    def forget_stop(self) -> None:
        """Deletes the marker, which shows its writer that the stage has ended."""
        with self._reaching():
            self._files.delete(self._path(STOP_MARKER), False)

    def read(self, name: str) -> str | None:
        """A small text in the folder; None if it does not exist."""
        with self._reaching():
            path = self._path(name)
            with _until_it_is_gone():
                if self._files.exists(path):
                    with closing(self._files.open(path)) as stream:
                        return str(self._text.toString(stream, "UTF-8"))
        return None

    def write(self, name: str, text: str) -> None:
        """Writes a text atomically. An existing one is replaced."""
        self._write(name, text, overwrites=True)

    def create(self, name: str, text: str) -> bool:
        """Like `write`, but an existing text stays. Returns whether this one was written."""
        return self._write(name, text, overwrites=False)

    def _write(self, name: str, text: str, *, overwrites: bool) -> bool:
        with self._reaching():
            try:
                self._atomic.mkdirs(self._path(name).getParent())
                stream = self._atomic.createAtomic(self._path(name), overwrites)
                stream.write(bytearray(text.encode()))
                stream.close()
            except Py4JJavaError as error:
                if overwrites or not error.java_exception.getClass().getSimpleName().endswith(_EXISTS):
                    raise
                return False
        return True

    def _path(self, name: str) -> Any:
        return self._path_class(self._folder, name)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage()).splitlines()[0]
            raise Unreachable(f"the checkpoint cannot be reached: {reason}", where=self._uri) from error


@contextmanager
def _until_it_is_gone() -> Iterator[None]:
    """Around calls about a file that another driver may delete at any moment.

    These ask first whether it exists: an exception of Java, which is all that they would learn otherwise, costs PySpark
    50 ms, and a running stage looks for its marker every second.
    """
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != _NOT_FOUND:
            raise
