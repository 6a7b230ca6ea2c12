"""What `enrich demo` shows: a whole pipeline on servers of its own, changed and broken in front of the viewer.

`world` starts and ends everything, `plays` makes events, `watch` reads what comes out, `story` is what happens when.
Nothing is made up: every figure is measured on the running pipeline of examples/demo.
"""

from enrich.demo.story import Chapter, tell_story
from enrich.demo.watch import Figures
from enrich.demo.world import DemoWorld, demo_world

__all__ = ["Chapter", "DemoWorld", "Figures", "demo_world", "tell_story"]
