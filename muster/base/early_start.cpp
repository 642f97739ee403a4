// Runs before the constructors of shared libraries: of this process there are the loader's
// relocations alone, and no more than the system is to be asked for.
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "muster/base/asks_for_help_internal.h"
#include "muster/base/spinning.h"

namespace muster::internal {
namespace {

constexpr std::size_t kMostVariables = 4096;

bool is_variable(const char* entry, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(entry, name, length) == 0 && entry[length] == '=';
}

bool says_how_to_wait(char** environment) {
  for (; *environment != nullptr; ++environment) {
    if (is_variable(*environment, kSpinCountVariable)) return true;
    if (is_variable(*environment, "OMP_WAIT_POLICY")) return true;
  }
  return false;
}

int is_libgomp(dl_phdr_info* library, std::size_t /*size*/, void* /*unused*/) {
  return library->dlpi_name != nullptr && std::strstr(library->dlpi_name, "/libgomp") != nullptr;
}

// Not where the loader was started as a program: then it is what would begin anew.
bool can_begin_anew() { return ::getauxval(AT_BASE) != 0 && ::getauxval(AT_SECURE) == 0; }

void begin_anew(int count, char** arguments, char** environment) {
  if (count < 1 || says_how_to_wait(environment)) return;
  // It ends before there is anything to wait for.
  if (asks_for_help(arguments)) return;
  if (!can_begin_anew() || ::dl_iterate_phdr(is_libgomp, nullptr) == 0) return;
  std::array<char, 4096> program{};
  if (::readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0) return;
  std::array<char, 32> variable{};
  std::strcat(std::strcat(std::strcpy(variable.data(), kSpinCountVariable), "="), kSpinCount);
  static std::array<char*, kMostVariables> next{};
  std::size_t variables = 0;
  for (; environment[variables] != nullptr; ++variables) {
    if (variables + 2 == next.size()) return;
    next[variables] = environment[variables];
  }
  next[variables] = variable.data();
  // Where that fails, threads spin as they always did.
  ::execve(program.data(), arguments, next.data());
}

__attribute__((section(".preinit_array"), used)) void (*const kBeginAnew)(int, char**,
                                                                          char**) = begin_anew;

}  // namespace

void limit_spinning() {}

}  // namespace muster::internal
