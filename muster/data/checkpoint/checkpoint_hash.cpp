#include "muster/data/checkpoint/checkpoint_hash.h"

#include <cstdint>

#include "muster/base/sha256.h"
#include "muster/data/checkpoint/little_endian_internal.h"

namespace muster {
namespace {

void add_number(Sha256& hash, std::uint64_t number) { hash.update(bytes_of(number)); }

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(text);
}

}  // namespace

std::string checkpoint_hash(const BundleReader& bundle) {
  Sha256 hash;
  for (const std::string& name : bundle.names()) {
    const TensorSpec spec = bundle.spec(name);
    add_text(hash, name);
    add_number(hash, static_cast<std::uint64_t>(spec.type));
    add_number(hash, spec.shape.size());
    for (const std::int64_t dimension : spec.shape) {
      add_number(hash, static_cast<std::uint64_t>(dimension));
    }
    if (spec.type == DataType::kString) {
      for (const std::string& text : bundle.read_strings(name)) add_text(hash, text);
    } else {
      const TensorData tensor = bundle.read(name);
      add_text(hash, {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
    }
  }
  return hash.hex_digest();
}

}  // namespace muster
