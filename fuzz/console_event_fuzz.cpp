// One record of an event file as the console reads it: its scalars without building messages, and
// where all else lies.
#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/console/media_index.h"
#include "muster/console/scalar_events.h"
#include "muster/data/summary/event.h"

namespace {

void show_media(const muster::Event& event) {
  muster::console::MediaIndex index;
  index.note(event, {});
  for (const auto& [key, places] : index.places()) {
    try {
      muster::console::media_item(event, key.first, key.second);
    } catch (const muster::Error&) {
      continue;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;  // It logs every text that is not UTF-8.
  const std::string_view record(reinterpret_cast<const char*>(data), size);
  try {
    const bool has_media =
        muster::console::scan_scalars(record, [&](const muster::console::ScalarEvent& event) {
          if (event.tag.size() > size) std::abort();
        });
    if (has_media) show_media(muster::decode_event(record));
  } catch (const muster::Error&) {
    return 0;
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  Histogram histogram;
  histogram.add(std::vector<double>{-1, 0.5, 3});
  std::vector<std::string> seeds;
  for (const auto& value : std::vector<SummaryValue>{
           {.tag = "scalar", .data = 0.5F},
           {.tag = "histogram", .data = histogram.data()},
           {.tag = "image", .data = ImageData{{1, 1, 1}, "\x89PNG\r\n\x1a\n"}},
           {.tag = "tensor", .data = NumberTensor{NumberTensor::Type::kDouble, {}, {1}}},
           text_summary("text", "hello")}) {
    seeds.push_back(encode_event(
        {.wall_time = 1.5, .step = 300, .what = Summary{{.tag = "loss", .data = 1.0F}, value}}));
  }
  const char graph[] =
      "\x0a\x0a\x0a\x01"
      "a"
      "\x12\x05"
      "Const";
  seeds.push_back(encode_event({.what = GraphBytes{graph}}));
  return seeds;
}

// As for event_fuzz: an empty message of two bytes becomes an object of some hundred.
MemoryBound memory_bound() {
  return {.base_bytes = std::size_t{64} << 20, .bytes_per_input_byte = 1024};
}

}  // namespace muster::fuzz
