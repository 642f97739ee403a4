#include "muster/nn/model/random_scope.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster {
namespace {

thread_local RandomScope* innermost = nullptr;

}  // namespace

std::uint64_t derive_key(std::uint64_t key, std::string_view name) {
  // Eight bytes at a time, the last ones padded; the length keeps "a" and "a\0" apart.
  key = derive_key(key, name.size(), 0x6E616D65);
  for (std::size_t at = 0; at < name.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = at; i < std::min(at + 8, name.size()); ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(name[i])} << (8 * (i - at));
    }
    key = derive_key(key, word);
  }
  return key;
}

std::uint64_t RandomScope::key_of(std::uint64_t seed, std::int64_t step, std::int64_t replica) {
  return derive_key(seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(replica));
}

RandomScope::RandomScope(std::uint64_t seed, std::int64_t step, std::int64_t replica)
    : key_(key_of(seed, step, replica)), outer_(innermost) {
  innermost = this;
}

RandomScope::RandomScope(const std::uint64_t* key_on_device)
    : key_on_device_(key_on_device), outer_(innermost) {
  innermost = this;
}

RandomScope::RandomScope(std::uint64_t key, at::Tensor key_tensor)
    : key_(key), key_tensor_(std::move(key_tensor)), outer_(innermost) {
  innermost = this;
}

RandomScope::RandomScope(Position from)
    : key_(from.key),
      key_on_device_(from.key_on_device),
      key_tensor_(std::move(from.key_tensor)),
      draws_(std::move(from.draws)),
      outer_(innermost) {
  innermost = this;
}

RandomScope::~RandomScope() { innermost = outer_; }

RandomScope* RandomScope::current() { return innermost; }

std::uint64_t RandomScope::next_key(std::uint64_t layer) {
  if (key_on_device_ != nullptr) {
    throw FailedPrecondition(
        "a layer draws random numbers on the CPU in a step that is captured; draw them on the "
        "device");
  }
  is_read_by_host_ = true;
  return derive_key(key_, layer, next_draw(layer));
}

}  // namespace muster
