"""Parts of the configuration that are designed but not built yet: refused by name, so that nobody relies on them.

Whoever builds one removes its line here and adds its section to the pipeline's model.
"""

from collections.abc import Mapping

NOT_BUILT: Mapping[str, str] = {
    "sync": "not built yet: this release has no sync service; remove the section",
}
