"""What `enrich demo` shows: a whole pipeline on its own servers, changed and broken in front of the viewer.

`world` starts and ends everything, `plays` produces events, `watch` reads the output, `story` runs the chapters.
Nothing is made up: every figure is measured on the running pipeline of examples/demo.
"""

from enrich.demo.story import Chapter, tell_story
from enrich.demo.watch import Figures
from enrich.demo.world import DemoWorld, demo_world

__all__ = ["Chapter", "DemoWorld", "Figures", "demo_world", "tell_story"]
