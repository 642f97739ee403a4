#pragma once

namespace muster {

/// Tells the C library to keep large freed blocks for the next allocation instead of giving them
/// back to the system: a training step frees and takes the same blocks again, and clearing fresh
/// pages was seen to cost a fifth of a step. At most a quarter of the machine's memory is kept. For
/// the whole process, once; settings that the environment makes (MALLOC_TRIM_THRESHOLD_ and the
/// like) stay. Does nothing with a C library other than glibc, or an allocator in its place.
void keep_freed_memory();

}  // namespace muster
