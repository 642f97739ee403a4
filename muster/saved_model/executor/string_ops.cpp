#include <ATen/Functions.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;

Kernel hash_bucket(const KernelContext& context) {
  const auto buckets = graph::attr<std::int64_t>(context.node, "num_buckets");
  if (buckets < 1) throw InvalidArgument("num_buckets must be positive: {}", buckets);
  return [buckets](const Inputs& inputs) {
    const StringTensor in = inputs.strings(0);
    const at::Tensor out = empty_on_host(in.shape(), at::kLong);
    auto* ids = out.data_ptr<std::int64_t>();
    Pace pace(inputs.budget());
    for (const auto& word : in.values()) {
      pace.add(sizeof(std::string) + word.size());
      *ids++ = static_cast<std::int64_t>(fingerprint64(word) % static_cast<std::uint64_t>(buckets));
    }
    return Slots{out};
  };
}

std::string_view strip(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// A kernel that makes a string of each string.
Kernel each(std::string (*change)(const std::string&)) {
  return [change](const Inputs& inputs) {
    const StringTensor in = inputs.strings(0);
    inputs.check_room(bytes_of(in.values()), 1);
    std::vector<std::string> out;
    Pace pace(inputs.budget());
    for (const auto& text : in.values()) {
      pace.add(sizeof(std::string) + text.size());
      out.push_back(change(text));
    }
    return Slots{StringTensor(std::move(out), in.shape())};
  };
}

std::string lower(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

struct NumberFormat {
  explicit NumberFormat(const graph::NodeDef& node)
      : precision(graph::attr_or<std::int64_t>(node, "precision", -1)),
        scientific(graph::attr_or<bool>(node, "scientific", false)),
        shortest(graph::attr_or<bool>(node, "shortest", false)),
        width(graph::attr_or<std::int64_t>(node, "width", -1)),
        fill(graph::attr_or<std::string>(node, "fill", "")) {
    if (precision > 1000 || width > 1000) throw InvalidArgument("precision or width above 1000");
    if (fill.size() > 1) throw InvalidArgument("fill must be one byte");
  }

  // Bytes that one number may take: most digits are those of 1e308.
  std::int64_t most_bytes() const {
    constexpr std::int64_t kObject = 32;
    const std::int64_t digits = std::max<std::int64_t>(precision, 6);
    return kObject + std::max(width, digits + (scientific || shortest ? 16 : 32));
  }
  std::string number(double value) const {
    const auto digits = static_cast<int>(precision < 0 ? 6 : precision);
    if (scientific) return fmt::format("{:.{}e}", value, digits);
    if (shortest) return fmt::format("{:.{}g}", value, digits);
    return fmt::format("{:.{}f}", value, digits);
  }
  std::string filled(std::string text) const {
    const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(width, 0));
    if (text.size() >= wanted) return text;
    const auto missing = wanted - text.size();
    if (fill == "-") return text + std::string(missing, ' ');
    if (fill == "0" && text.starts_with('-'))
      return "-" + std::string(missing, '0') + text.substr(1);
    return std::string(missing, fill == "0" ? '0' : ' ') + text;
  }

  std::int64_t precision;
  bool scientific;
  bool shortest;
  std::int64_t width;
  std::string fill;
};

Kernel as_string(const KernelContext& context) {
  return [format = NumberFormat(context.node)](const Inputs& inputs) {
    const at::Tensor in = inputs.host_tensor(0);
    std::vector<std::string> out;
    const auto count = in.numel();
    inputs.check_room(count, format.most_bytes());
    Pace pace(inputs.budget());
    const auto add = [&](const std::string& text) {
      out.push_back(format.filled(text));
      pace.add(static_cast<std::size_t>(format.most_bytes()));
    };
    if (in.scalar_type() == at::kBool) {
      for (std::int64_t i = 0; i < count; ++i) {
        add(in.data_ptr<bool>()[i] ? "true" : "false");
      }
    } else if (in.is_floating_point()) {
      const at::Tensor wide = in.to(at::kDouble).contiguous();
      for (std::int64_t i = 0; i < count; ++i) {
        add(format.number(wide.data_ptr<double>()[i]));
      }
    } else {
      const at::Tensor wide = in.scalar_type() == at::kLong ? in : in.to(at::kLong).contiguous();
      for (std::int64_t i = 0; i < count; ++i) {
        add(std::to_string(wide.data_ptr<std::int64_t>()[i]));
      }
    }
    return Slots{StringTensor(std::move(out), in.sizes().vec())};
  };
}

template <typename T>
at::Tensor parse_numbers(const Inputs& inputs, at::ScalarType type) {
  const StringTensor in = inputs.strings(0);
  at::Tensor out = at::empty(in.shape(), type);
  T* next = out.data_ptr<T>();
  Pace pace(inputs.budget());
  for (const auto& text : in.values()) {
    pace.add(sizeof(std::string) + text.size());
    std::string_view digits = strip(text);
    // from_chars knows no plus sign.
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), *next++);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      throw InvalidArgument("\"{}\" is no number of type {}", text,
                            graph::name_of(data_type(type)));
    }
  }
  return out;
}

Kernel to_number(const KernelContext& context) {
  const auto type =
      scalar_type(graph::attr_or<DataType>(context.node, "out_type", DataType::kFloat));
  return [type](const Inputs& inputs) -> Slots {
    switch (type) {
      case at::kFloat:
        return {parse_numbers<float>(inputs, type)};
      case at::kDouble:
        return {parse_numbers<double>(inputs, type)};
      case at::kInt:
        return {parse_numbers<std::int32_t>(inputs, type)};
      case at::kLong:
        return {parse_numbers<std::int64_t>(inputs, type)};
      default:
        throw InvalidArgument("out_type {}", graph::name_of(data_type(type)));
    }
  };
}

// A text may be gigabytes.
void append(std::string_view text, std::string& to, Pace& pace) {
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  // Once, and not each time that it has doubled.
  if (text.size() > kPiece && to.capacity() < to.size() + text.size()) {
    to.reserve(to.size() + text.size());
  }
  pace.add(sizeof(std::string));
  for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size()))) {
    const std::string_view piece = text.substr(0, kPiece);
    to += piece;
    pace.add(piece.size());
  }
}

// A scalar is joined to every element of the others.
Kernel join(const KernelContext& context) {
  return [separator =
              graph::attr_or<std::string>(context.node, "separator", "")](const Inputs& inputs) {
    std::vector<std::int64_t> shape;
    std::size_t count = 1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StringTensor part = inputs.strings(i);
      if (part.shape().empty()) continue;
      if (!shape.empty() && shape != part.shape()) {
        throw InvalidArgument("input {} has another shape than those before: {}", i,
                              describe(part));
      }
      shape = part.shape();
      count = part.values().size();
    }
    std::size_t bytes = count * (sizeof(std::string) + inputs.size() * separator.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StringTensor part = inputs.strings(i);
      const auto repeats = part.shape().empty() ? count : 1;
      for (const auto& text : part.values()) bytes += repeats * text.size();
      inputs.check_room(static_cast<std::int64_t>(bytes), 1);
    }
    std::vector<std::string> out(count);
    Pace pace(inputs.budget());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const StringTensor part = inputs.strings(i);
      for (std::size_t k = 0; k < count; ++k) {
        if (i > 0) out[k] += separator;
        append(part.values()[part.shape().empty() ? 0 : k], out[k], pace);
      }
    }
    return Slots{StringTensor(std::move(out), shape)};
  };
}

Slots length(const Inputs& inputs) {
  const StringTensor in = inputs.strings(0);
  const at::Tensor out = at::empty(in.shape(), at::kInt);
  auto* next = out.data_ptr<std::int32_t>();
  for (const auto& text : in.values()) *next++ = static_cast<std::int32_t>(text.size());
  return {out};
}

}  // namespace

void add_string_ops(OpTable& table) {
  table.add("StringToHashBucketFast", hash_bucket);
  table.add_plain("StringStrip",
                  each([](const std::string& text) { return std::string(strip(text)); }));
  table.add_plain("StringLower", each(lower));
  table.add("AsString", as_string);
  table.add("StringToNumber", to_number);
  table.add("StringJoin", join);
  table.add("StringLength", [](const KernelContext& context) -> Kernel {
    if (graph::attr_or<std::string>(context.node, "unit", "BYTE") != "BYTE") {
      throw Unimplemented("lengths in other units than bytes");
    }
    return length;
  });
}

}  // namespace muster::executor
