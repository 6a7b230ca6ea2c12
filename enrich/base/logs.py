"""Structured logs on stderr: text for people, one JSON object per line for machines. Never log secrets or payloads."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from textwrap import indent

from enrich.base.json_lines import escaped
from enrich.base.printable import visible, visible_lines

# Attributes that every record has; any other came from `extra=` and is a field.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    text = "text"
    json = "json"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(_fields(record))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False, default=str))


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={visible(str(value))}" for name, value in _fields(record).items())
        # One line, whatever it quotes: with one of their own others could write what looks like a record.
        text = f"{time} {record.levelname:<7} {record.name}: {visible(record.getMessage())}{fields}"
        if not record.exc_info:
            return text
        return f"{text}\n{indent(visible_lines(self.formatException(record.exc_info)), '  ')}"


def setup_logs(log_format: LogFormat, level: LogLevel) -> None:
    """Sends the logs of this process to stderr. Called once, when a program starts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format is LogFormat.json else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # The Kafka client warns about everything that it retries on its own; a lasting problem is returned as an error.
    logging.getLogger("librdkafka").setLevel("ERROR" if level is LogLevel.warning else level.upper())


def logs_are_json() -> bool:
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)
