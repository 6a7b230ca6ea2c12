"""What `enrich demo` shows: a whole pipeline on its own servers, changed and broken in front of the viewer.

`world` starts and ends everything, `programs` are its processes, `plays` makes events and `sender` posts them,
`customers` receive them, `watch` measures, `story` runs the chapters, `proof` says by their origins what came out.
Nothing is made up: every figure is measured on the running pipeline of examples/demo.
"""

from enrich.demo.proof import Proof
from enrich.demo.story import Chapter, tell_story
from enrich.demo.watch import Figures
from enrich.demo.world import DemoWorld, demo_world

__all__ = ["Chapter", "DemoWorld", "Figures", "Proof", "demo_world", "tell_story"]
