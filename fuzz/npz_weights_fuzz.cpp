// .npz files as files of weights.

#include <algorithm>
#include <memory>
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/weights/npz_weights.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto weights =
        muster::parse_npz_weights(std::make_shared<muster::fuzz::MemoryFile>(bytes), "fuzz");
    for (const auto& weight : weights.tensors) {
      // Unpacked, in a string that grows, and in another order.
      const std::uint64_t declared = weight.storage->size_bytes();
      muster::fuzz::allow_memory(4 * std::min(declared, std::uint64_t{1} << 40));
      muster::row_major_bytes(weight);
    }
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

// Four arrays in the layout of numpy.savez, stored and compressed.
std::vector<std::string> muster::fuzz::seeds() {
  return {
      base64_decode(
          "UEsDBC0AAAAAAAAAIQBP6QAq//////////8NABQAZmMud2VpZ2h0Lm5weQEAEACYAAAAAAAAAJgAAAAAAAAAk05V"
          "TVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDIsIDMpLCB9"
          "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAACA"
          "PwAAAEAAAEBAAACAQAAAoEBQSwMELQAAAAAAAAAhAKMbyB3//////////wgAFABmYy50Lm5weQEAEACYAAAAAAAA"
          "AJgAAAAAAAAAk05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLCAnc2hhcGUn"
          "OiAoMiwgMyksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
          "ICAgIAoAAAAAAACAPwAAAEAAAEBAAACAQAAAoEBQSwMELQAAAAAAAAAhACO48Gz//////////wkAFABjb3VudC5u"
          "cHkBABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxpOCcsICdmb3J0cmFuX29yZGVyJzog"
          "RmFsc2UsICdzaGFwZSc6ICgpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
          "ICAgICAgICAgICAgICAgICAKBwAAAAAAAABQSwMELQAAAAAAAAAhABcY+zL//////////wkAFABuYW1lcy5ucHkB"
          "ABAAiAAAAAAAAACIAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxVMicsICdmb3J0cmFuX29yZGVyJzogRmFs"
          "c2UsICdzaGFwZSc6ICgxLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
          "ICAgICAgICAgICAgICAKYQAAAGIAAABQSwECLQMtAAAAAAAAACEAT+kAKpgAAACYAAAADQAAAAAAAAAAAAAAgAEA"
          "AAAAZmMud2VpZ2h0Lm5weVBLAQItAy0AAAAAAAAAIQCjG8gdmAAAAJgAAAAIAAAAAAAAAAAAAACAAdcAAABmYy50"
          "Lm5weVBLAQItAy0AAAAAAAAAIQAjuPBsiAAAAIgAAAAJAAAAAAAAAAAAAACAAakBAABjb3VudC5ucHlQSwECLQMt"
          "AAAAAAAAACEAFxj7MogAAACIAAAACQAAAAAAAAAAAAAAgAFsAgAAbmFtZXMubnB5UEsFBgAAAAAEAAQA3wAAAC8D"
          "AAAAAA=="),
      base64_decode(
          "UEsDBC0AAAAIAAAAIQBP6QAq//////////8NABQAZmMud2VpZ2h0Lm5weQEAEACYAAAAAAAAAFUAAAAAAAAAm+wX"
          "6hsQychQxlCtnpJanFykbqWgbpNmoq6joJ6WX1RSlJgXn1+UkgoSd0vMKU4FihdnJBakAvkaRjoKxpo6CrUKZAMu"
          "BjBosAcSDkAExA1AvMABAFBLAwQtAAAACAAAACEAoxvIHf//////////CAAUAGZjLnQubnB5AQAQAJgAAAAAAAAA"
          "VAAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBuk2airqOgnpZfVFKUmBefX5SSChIPKSpNBQoXZyQWpAK5GkY6"
          "CsaaOgq1CuQDLgYwaLAHEg5ABMQNQLzAAQBQSwMELQAAAAgAAAAhACO48Gz//////////wkAFABjb3VudC5ucHkB"
          "ABAAiAAAAAAAAABGAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TaaGuo6Cell9UUpSYF59flJIKEndLzClO"
          "BYoXZyQWpAL5Gpo6CrUKFAEudgYIAABQSwMELQAAAAgAAAAhABcY+zL//////////wkAFABuYW1lcy5ucHkBABAA"
          "iAAAAAAAAABLAAAAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG4TaqSuo6Cell9UUpSYF59flJIKEndLzClOBYoX"
          "ZyQWpAL5GoY6mjoKtQoUAK5EBgaGJCAGAFBLAQItAy0AAAAIAAAAIQBP6QAqVQAAAJgAAAANAAAAAAAAAAAAAACA"
          "AQAAAABmYy53ZWlnaHQubnB5UEsBAi0DLQAAAAgAAAAhAKMbyB1UAAAAmAAAAAgAAAAAAAAAAAAAAIABlAAAAGZj"
          "LnQubnB5UEsBAi0DLQAAAAgAAAAhACO48GxGAAAAiAAAAAkAAAAAAAAAAAAAAIABIgEAAGNvdW50Lm5weVBLAQIt"
          "Ay0AAAAIAAAAIQAXGPsySwAAAIgAAAAJAAAAAAAAAAAAAACAAaMBAABuYW1lcy5ucHlQSwUGAAAAAAQABADfAAAA"
          "KQIAAAAA")};
}

// The buffers of a stream, eight times the file, and the largest array that a header declares.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{448} << 10, .bytes_per_input_byte = 8};
}
