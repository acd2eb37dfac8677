"""What went wrong while a command worked, in words that say what to do."""

import errno

from djgnn.errors import OutputError, is_memory

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
RESUME = "repeat the command with --resume to continue"


def describe(error: BaseException) -> str:
    """A line for an error that is not the fault of the input.

    Memory and disks that are full are named as such. Of `djgnn fit` the phase is known, and that
    what is done so far is kept.

    Example:
        >>> describe(OSError(28, "No space left on device", "run/weights.safetensors"))
        'failed: no space left for run/weights.safetensors; free some'
    """
    phase = next(iter(getattr(error, "__notes__", ())), "")
    during, again = (f" during {phase}", f" and {RESUME}") if phase else ("", "")
    if isinstance(error, KeyboardInterrupt):
        return f"stopped{during}{f'; {RESUME}' if phase else ''}"
    begin = f"failed{during}: "
    if isinstance(error, OutputError):
        return f"{begin}{error}"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        what = f"for {error.filename}" if error.filename else "on the disk"
        return f"{begin}no space left {what}; free some{again}"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{begin}{error.filename} may not be written; allow it{again}"
    if is_memory(error):
        wanted = " ".join(str(error).split())[:200]
        return (
            f"{begin}out of memory; take a machine or GPU with more, train in mini-batches "
            f"(--batch-size), or leave the page out (--no-report){again} (got {wanted})"
        )
    return f"{begin}{type(error).__name__}: {error}"
