// Vocabularies of word pieces.
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/text/word_piece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = muster::word_piece_from_bytes(bytes);
    // The file as a text too: any text is read, whatever the vocabulary has.
    tokenizer->decode(tokenizer->encode(bytes));
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {"[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nun\nrunn\n##ing\n,\n",
          "[UNK]\r\n\u6771\r\n\u4eac\r\ncaf\u00e9\r\n##\u00e9\r\n"};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 400}; }
