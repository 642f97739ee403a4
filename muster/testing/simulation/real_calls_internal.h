// The C library's own calls, which those of this folder stand before.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>

namespace muster::simulation {

/// The call of that name that would be found without this folder.
template <typename Call>
Call* real_call(Call*& known, const char* name) {
  if (known == nullptr) known = reinterpret_cast<Call*>(::dlsym(RTLD_NEXT, name));
  return known;
}

long real_syscall(long number, long a, long b, long c, long d, long e, long f);
long real_write(int descriptor, const void* bytes, std::size_t size);
[[noreturn]] void real__exit(int status);

}  // namespace muster::simulation
