"""A progress bar, and the curve of a run that is being trained: in a terminal or in the cell of a notebook."""
import sys
import time

from muster.curves import svg
from muster.hooks import Hook


def notebook_display():
    """IPython's display() where this is a notebook, else None."""
    shell = sys.modules.get("IPython")
    if shell is None or shell.get_ipython() is None or "IPKernelApp" not in shell.get_ipython().config:
        return None
    from IPython.display import display
    return display


class Shown(Hook):
    """A hook that shows itself every so many seconds, and as HTML in a notebook."""

    def __init__(self, every_secs=0.5):
        self.every_secs = every_secs
        self.shown_at = 0.0
        self.handle = None

    def show(self, force=False):
        now = time.monotonic()
        if not force and now - self.shown_at < self.every_secs:
            return
        self.shown_at = now
        display = notebook_display()
        if display is None:
            self.show_in_terminal()
        elif self.handle is None:
            self.handle = display(self, display_id=True)
        else:
            self.handle.update(self)

    def show_in_terminal(self):
        pass


class Progress(Shown):
    """A bar of steps: train(..., max_steps=1000, hooks=[muster.Progress(1000)])."""

    def __init__(self, max_steps, every_secs=0.5, file=None):
        super().__init__(every_secs)
        self.max_steps = max_steps
        self.file = file or sys.stderr
        self.step = 0
        self.first = None
        self.began = 0.0

    def after_create_session(self, session):
        self.step = session.global_step
        if self.first is None:
            self.first, self.began = self.step, time.monotonic()

    def after_run(self, session):
        self.step = session.global_step
        self.show()

    def end(self, session):
        self.step = session.global_step
        self.show(force=True)
        if self.handle is None and self.file.isatty():
            print(file=self.file)

    def rate(self):
        return (self.step - (self.first or 0)) / max(time.monotonic() - self.began, 1e-9)

    def text(self):
        return f"{self.step}/{self.max_steps} steps, {self.rate():.1f} steps/s"

    def show_in_terminal(self):
        if self.file.isatty():
            done = min(30, 30 * self.step // max(self.max_steps, 1))
            print(f"\r[{'#' * done}{'.' * (30 - done)}] {self.text()}", end="", file=self.file, flush=True)

    def _repr_html_(self):
        return f'<progress value="{self.step}" max="{self.max_steps}"></progress> {self.text()}'


class LiveCurve(Shown):
    """The loss of a run as a curve that grows in a notebook's cell; elsewhere, the last one of a cell."""

    def __init__(self, every_steps=10, every_secs=1.0):
        super().__init__(every_secs)
        self.every_steps = every_steps
        self.points = []

    def after_run(self, session):
        step = session.global_step
        if step % self.every_steps == 0:
            self.points.append((step, session.loss))
            self.show()

    def end(self, session):
        self.show(force=True)

    def _repr_html_(self):
        return svg(self.points, "loss")
