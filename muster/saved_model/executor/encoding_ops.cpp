#include <ATen/Functions.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;

// The bytes of each string as numbers, along a new last axis.
Kernel decode_raw(const KernelContext& context) {
  const auto type = scalar_type(graph::attr<DataType>(context.node, "out_type"));
  const auto width = static_cast<std::int64_t>(c10::elementSize(type));
  const bool swap = !graph::attr_or<bool>(context.node, "little_endian", true) && width > 1;
  return [=](const Inputs& inputs) {
    const StringTensor in = inputs.strings(0);
    const auto length = in.values().empty() ? 0 : static_cast<std::int64_t>(in.values()[0].size());
    if (length % width != 0) {
      throw InvalidArgument("{} bytes are no numbers of {} bytes", length, width);
    }
    auto sizes = in.shape();
    sizes.push_back(length / width);
    inputs.check_room(sizes, type);
    const at::Tensor out = at::empty(sizes, type);
    auto* next = static_cast<char*>(out.data_ptr());
    Pace pace(inputs.budget());
    for (const auto& text : in.values()) {
      pace.add(sizeof(std::string) + text.size());
      if (static_cast<std::int64_t>(text.size()) != length) {
        throw InvalidArgument("the strings differ in length: {} and {} bytes", length, text.size());
      }
      std::ranges::copy(text, next);
      for (std::int64_t i = 0; swap && i < length; i += width) {
        std::reverse(next + i, next + i + width);
      }
      // A bool is 0 or 1 and nothing else.
      for (std::int64_t i = 0; type == at::kBool && i < length; ++i) next[i] = next[i] != 0 ? 1 : 0;
      next += length;
    }
    return Slots{out};
  };
}

// The alphabet for addresses, which TensorFlow uses.
std::string web_safe(std::string text) {
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

Kernel encode_base64(const KernelContext& context) {
  const bool pad = graph::attr_or<bool>(context.node, "pad", false);
  return [pad](const Inputs& inputs) {
    const StringTensor in = inputs.strings(0);
    inputs.check_room(2 * bytes_of(in.values()), 1);
    std::vector<std::string> out;
    Pace pace(inputs.budget());
    for (const auto& text : in.values()) {
      pace.add(sizeof(std::string) + text.size());
      out.push_back(web_safe(base64_encode(text)));
      if (!pad) out.back().resize(out.back().find_last_not_of('=') + 1);
    }
    return Slots{StringTensor(std::move(out), in.shape())};
  };
}

Slots decode_base64(const Inputs& inputs) {
  const StringTensor in = inputs.strings(0);
  std::vector<std::string> out;
  Pace pace(inputs.budget());
  for (std::string text : in.values()) {
    pace.add(sizeof(std::string) + text.size());
    if (text.find_first_of("+/") != std::string::npos) {
      throw InvalidArgument("\"{}\" is not in the web-safe alphabet of base64",
                            text.substr(0, 100));
    }
    std::ranges::replace(text, '-', '+');
    std::ranges::replace(text, '_', '/');
    out.push_back(base64_decode(text));
  }
  return {StringTensor(std::move(out), in.shape())};
}

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

void drop_blanks(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

// At blanks, of which many count as one and those at the ends as none.
std::vector<std::string_view> split_at_blanks(std::string_view text, std::int64_t most) {
  std::vector<std::string_view> parts;
  drop_blanks(text);
  while (!text.empty()) {
    if (most > 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.push_back(text);
      return parts;
    }
    const auto end = std::ranges::find_if(text, is_blank);
    parts.emplace_back(text.begin(), end);
    text = {end, text.end()};
    drop_blanks(text);
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       std::int64_t most) {
  if (separator.empty()) return split_at_blanks(text, most);
  std::vector<std::string_view> parts;
  while (most <= 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const auto end = text.find(separator);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(text);
  return parts;
}

// The parts of each string as a row of a sparse matrix.
Kernel string_split(const KernelContext& context) {
  const auto most = graph::attr_or<std::int64_t>(context.node, "maxsplit", -1);
  return [most](const Inputs& inputs) {
    const StringTensor in = inputs.strings(0);
    const std::string separator = inputs.string(1);
    if (in.shape().size() != 1) throw InvalidArgument("input 0 must be a vector of strings");
    // Each byte may be a part: a view, a string and a place.
    constexpr std::int64_t kBytesEach = 64;
    std::vector<std::string> values;
    std::vector<std::int64_t> places;
    std::int64_t longest = 0;
    for (std::size_t row = 0; row < in.values().size(); ++row) {
      const std::string& text = in.values()[row];
      inputs.check_room(static_cast<std::int64_t>(values.size() + text.size() + 1), kBytesEach);
      const auto parts = split_at(text, separator, most);
      inputs.budget().check_time();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        values.emplace_back(parts[i]);
        places.insert(places.end(), {static_cast<std::int64_t>(row), static_cast<std::int64_t>(i)});
      }
      longest = std::max(longest, static_cast<std::int64_t>(parts.size()));
    }
    const auto rows = static_cast<std::int64_t>(in.values().size());
    return Slots{at::tensor(places, at::kLong).reshape({-1, 2}), StringTensor(std::move(values)),
                 at::tensor(std::vector<std::int64_t>{rows, longest}, at::kLong)};
  };
}

}  // namespace

void add_encoding_ops(OpTable& table) {
  static_assert(std::endian::native == std::endian::little);
  table.add("DecodeRaw", decode_raw);
  table.add("EncodeBase64", encode_base64);
  table.add_plain("DecodeBase64", decode_base64);
  table.add("StringSplitV2", Op{string_split, {"indices", "values", "shape"}});
}

}  // namespace muster::executor
