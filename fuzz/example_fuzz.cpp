// Examples and SequenceExamples: the parsers, every value of every feature, and the decoders.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/example_parser.h"
#include "muster/data/records/parse_spec.h"

namespace {

void read_values(const muster::FeatureView& view) {
  std::vector<std::string_view> strings;
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  view.append_to(strings);
  view.append_to(ints);
  view.append_to(floats);
  if (view.count() != strings.size() + ints.size() + floats.size()) __builtin_trap();
}

void read_example(std::string_view bytes) {
  const muster::ExampleParser parser(muster::example_keys(bytes));
  for (const auto& view : parser.parse(bytes)) read_values(view);
}

void read_sequence_example(std::string_view bytes) {
  auto keys = muster::sequence_example_keys(bytes);
  const muster::SequenceExampleParser parser(std::move(keys.context), std::move(keys.lists));
  muster::SequenceExampleView view;
  parser.parse(bytes, view);
  for (const auto& feature : view.context) read_values(feature);
  for (const auto& list : view.lists) {
    for (const auto& step : list.steps()) read_values(step);
  }
}

void decode(std::string_view bytes) {
  static const muster::ExampleDecoder decoder(
      {{"image", muster::FixedLen{.kind = muster::FeatureKind::kBytes}},
       {"label", muster::VarLen{.kind = muster::FeatureKind::kInt64}},
       {"box", muster::FixedLen{.kind = muster::FeatureKind::kFloat,
                                .shape = {2},
                                .default_value = std::vector<float>{0}}}});
  decoder.decode({&bytes, 1});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto read : {read_example, read_sequence_example, decode}) {
    try {
      read(bytes);
    } catch (const muster::Error&) {
      // Refused, as it should be.
    }
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  SequenceExampleBuilder sequence;
  sequence.context().add_int("length", 2);
  sequence.add_step("words", std::vector<std::string_view>{"to", "be"})
      .add_step("words", std::vector<std::string_view>{})
      .add_step("scores", std::vector<float>{1, 2});
  return {ExampleBuilder()
              .add_bytes("image", std::string(100, 'x'))
              .add_ints("label", std::vector<std::int64_t>{3, -1, 1 << 20})
              .add_floats("box", std::vector<float>{0.5F, 1.5F})
              .serialize(),
          ExampleBuilder().serialize(), sequence.serialize(),
          // A group, a list in two pieces, values that are not packed.
          std::string("\x4B\x12\x01x\x4C\x0A\x15\x0A\x13\x0A\x01k\x12\x0E\x0A\x05\x0A\x03one\x0A"
                      "\x05\x0A\x03two",
                      27),
          std::string("\x0A\x0E\x0A\x0C\x0A\x01i\x12\x07\x1A\x05\x08\x05\x08\x96\x01", 16)};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 256}; }
