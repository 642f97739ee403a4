// TF_CONFIG as any text.
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/platform/cluster/tf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    muster::parse_tf_config({reinterpret_cast<const char*>(data), size});
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({})",
      R"({"cluster":{"chief":["a:1"],"worker":["b:1","c:1"],"ps":["d:1"]},"task":{"type":"ps","index":"0"}})",
      R"({"cluster":{"master":{"0":"a:1"},"worker":{"3":"b:1"}},"task":{"type":"worker","index":3}})",
      R"({"cluster":{"chief":["a:1"],"evaluator":["e:1"]},"task":{"type":"evaluator","index":2}})",
      R"({"environment":"cloud","model_dir":"m","service":{},"job":{"x":[1,{}]},"task":{"trial":1}})",
  };
}

// A JSON value of two bytes becomes an object of some dozens.
MemoryBound memory_bound() { return {.bytes_per_input_byte = 256}; }

}  // namespace muster::fuzz
