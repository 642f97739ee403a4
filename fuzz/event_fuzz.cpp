// One record of an event file as any bytes.
#include <google/protobuf/stubs/logging.h>

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/summary/event.h"
#include "muster/data/summary/hparams.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer quiet;  // It logs every text that is not UTF-8.
  try {
    muster::decode_event({reinterpret_cast<const char*>(data), size});
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  Histogram histogram;
  histogram.add(std::vector<double>{-1, 0.5, 3});
  const std::vector<HParam> hparams{{"rate", 0.1}};
  std::vector<std::string> seeds;
  for (const auto& value : std::vector<SummaryValue>{
           {.tag = "scalar", .data = 0.5F},
           {.tag = "histogram", .data = histogram.data()},
           {.tag = "image", .data = ImageData{{1, 1, 1}, "png"}},
           {.tag = "tensor", .data = NumberTensor{NumberTensor::Type::kDouble, {2}, {1, 2}}},
           text_summary("text", "hello"),
           hparams_session_start(hparams, "group", 1.0)}) {
    seeds.push_back(encode_event({.wall_time = 1.5, .step = 3, .what = Summary{value}}));
  }
  seeds.push_back(encode_event({.what = FileVersion{std::string(kEventFileVersion)}}));
  seeds.push_back(encode_event({.what = SessionMark{SessionMark::Status::kStart, "path", "m"}}));
  return seeds;
}

// An empty message of two bytes becomes an object of some hundred. For a text whose length is a lie
// protobuf reserves up to 50 MB, and fails then.
MemoryBound memory_bound() {
  return {.base_bytes = std::size_t{64} << 20, .bytes_per_input_byte = 256};
}

}  // namespace muster::fuzz
