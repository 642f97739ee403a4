// Instances of predictions: JSON lines, text lines and requests, as tensors of two signatures.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/serving/codec/instances.h"

namespace {

using muster::graph::DataType;
using muster::serving::Instances;

muster::graph::TensorInfo info(DataType type, const muster::graph::Shape& shape) {
  return {.name = "x:0", .dtype = type, .shape = shape};
}

const muster::graph::SignatureDef kNamed{.inputs = {{"age", info(DataType::kFloat, {-1})},
                                                    {"ids", info(DataType::kInt32, {-1, 2})},
                                                    {"word", info(DataType::kString, {-1})}}};
const muster::graph::SignatureDef kAny{
    .inputs = {{"x", info(DataType::kString, muster::graph::Shape::any())}}};

void make_tensors(const Instances& instances, const muster::graph::SignatureDef& signature) {
  try {
    for (const auto& [name, tensor] : instances.tensors(signature)) tensor.check();
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
}

void parse(Instances (*make)(std::string_view), std::string_view text) {
  try {
    const Instances instances = make(text);
    make_tensors(instances, kNamed);
    make_tensors(instances, kAny);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(Instances::from_json_lines, text);
  parse(Instances::from_text_lines, text);
  parse(Instances::from_request, text);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {
      "{\"age\": 39, \"ids\": [1, -2], \"word\": {\"b64\": \"AP8=\"}}\n"
      "{\"age\": NaN, \"ids\": [3, 4], \"word\": \"caf\\u00e9\"}\n",
      "[[\"a\", \"b\"], [\"c\", \"d\"]]\n",
      "{\"instances\": [\"a\", {\"x\": \"b\"}], \"signature_name\": \"s\"}"};
}

// A value of JSON takes more memory than its text.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 512}; }
