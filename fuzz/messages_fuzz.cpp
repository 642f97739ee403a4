// A message of a task that belongs to the run: the first byte is its number, two more the size of
// its header, and after the header is its body.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/distribution/wire/message_samples_internal.h"

namespace {

using namespace muster::internal;  // NOLINT(google-build-using-namespace)

struct Bytes {
  std::string header{};
  std::string body{};

  bool operator==(const Bytes&) const = default;
};

template <typename Message>
Bytes read_and_write(const Bytes& bytes) {
  const auto message =
      decode<Message>(bytes.header, samples::buffer_of(bytes.body), samples::expected());
  const EncodedMessage encoded = encode(message);
  return {encoded.header, samples::body_of(encoded)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 3, size - 3);
  const std::size_t header = std::min<std::size_t>(rest.size(), data[1] | data[2] << 8);
  const Bytes bytes{std::string(rest.substr(0, header)), std::string(rest.substr(header))};
  samples::for_each_message([&]<typename Message>(std::type_identity<Message>) {
    if (kKind<Message>.number != data[0]) return;
    try {
      const Bytes once = read_and_write<Message>(bytes);
      // A message that was accepted once is one that tasks send.
      if (read_and_write<Message>(once) != once) __builtin_trap();
    } catch (const muster::DataLoss&) {
    }
  });
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  samples::for_each_message([&]<typename Message>(std::type_identity<Message>) {
    const auto message = samples::sample<Message>();
    const EncodedMessage encoded = encode(message);
    std::string seed{static_cast<char>(kKind<Message>.number)};
    seed += static_cast<char>(encoded.header.size() & 0xff);
    seed += static_cast<char>(encoded.header.size() >> 8);
    seeds.push_back(seed + encoded.header + samples::body_of(encoded));
  });
  return seeds;
}

MemoryBound memory_bound() { return {}; }

}  // namespace muster::fuzz
