#include <ATen/Functions.h>
#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"

namespace muster::executor {
namespace {

// RE2 takes time in proportion to text and expression, whatever they are, and bounds its memory.
std::shared_ptr<const RE2> compiled(const std::string& pattern) {
  auto made = std::make_shared<const RE2>(pattern, RE2::Quiet);
  if (!made->ok()) {
    throw InvalidArgument("\"{}\" is no regular expression: {}", pattern.substr(0, 100),
                          made->error());
  }
  return made;
}

// The most that replacing may make of a text: each match may be empty, and \1 the whole text.
std::int64_t most_bytes_of(std::size_t text, const std::string& rewrite) {
  const auto groups = static_cast<std::size_t>(std::ranges::count(rewrite, '\\'));
  const auto size = text + (text + 1) * rewrite.size() + text * groups;
  return static_cast<std::int64_t>(sizeof(std::string) + size);
}

// A search cannot be stopped: of this many bytes it takes a second or less.
constexpr std::size_t kMostSearched = std::size_t{64} << 20;

void check_searched(const std::string& text) {
  if (text.size() <= kMostSearched) return;
  throw ResourceExhausted("a text of {} bytes; regular expressions are searched for in at most {}",
                          text.size(), kMostSearched);
}

Slots replace(const Inputs& inputs, const RE2& pattern, const std::string& rewrite, bool global) {
  std::string error;
  if (!pattern.CheckRewriteString(rewrite, &error)) {
    throw InvalidArgument("\"{}\" cannot replace matches of \"{}\": {}", rewrite.substr(0, 100),
                          pattern.pattern().substr(0, 100), error);
  }
  const StringTensor in = inputs.strings(0);
  std::int64_t made = 0;
  std::vector<std::string> out;
  Pace pace(inputs.budget());
  for (const auto& text : in.values()) {
    check_searched(text);
    pace.add(sizeof(std::string) + 16 * text.size());
    inputs.check_room(made + most_bytes_of(text.size(), rewrite), 1);
    std::string& changed = out.emplace_back(text);
    if (global) {
      RE2::GlobalReplace(&changed, pattern, rewrite);
    } else {
      RE2::Replace(&changed, pattern, rewrite);
    }
    made += static_cast<std::int64_t>(sizeof(std::string) + changed.size());
  }
  return {StringTensor(std::move(out), in.shape())};
}

Slots full_match(const Inputs& inputs, const RE2& pattern) {
  const StringTensor in = inputs.strings(0);
  const at::Tensor out = at::empty(in.shape(), at::kBool);
  bool* next = out.data_ptr<bool>();
  Pace pace(inputs.budget());
  for (const auto& text : in.values()) {
    check_searched(text);
    pace.add(sizeof(std::string) + 16 * text.size());
    *next++ = RE2::FullMatch(text, pattern);
  }
  return {out};
}

Kernel regex_replace(const KernelContext& context) {
  const bool global = graph::attr_or<bool>(context.node, "replace_global", true);
  return [global](const Inputs& inputs) {
    return replace(inputs, *compiled(inputs.string(1)), inputs.string(2), global);
  };
}

Kernel static_regex_replace(const KernelContext& context) {
  return [global = graph::attr_or<bool>(context.node, "replace_global", true),
          pattern = compiled(graph::attr<std::string>(context.node, "pattern")),
          rewrite = graph::attr<std::string>(context.node, "rewrite")](const Inputs& inputs) {
    return replace(inputs, *pattern, rewrite, global);
  };
}

Kernel static_regex_full_match(const KernelContext& context) {
  return [pattern = compiled(graph::attr<std::string>(context.node, "pattern"))](
             const Inputs& inputs) { return full_match(inputs, *pattern); };
}

}  // namespace

void add_regex_ops(OpTable& table) {
  table.add("RegexReplace", regex_replace);
  table.add("StaticRegexReplace", static_regex_replace);
  table.add("StaticRegexFullMatch", static_regex_full_match);
  table.add_plain("RegexFullMatch", [](const Inputs& inputs) {
    return full_match(inputs, *compiled(inputs.string(1)));
  });
}

}  // namespace muster::executor
