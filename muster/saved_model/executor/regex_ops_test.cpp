#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/testing/message_of.h"

namespace muster::executor {
namespace {

using muster::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StringTensor one(const std::string& text) { return StringTensor({text}, {}); }

std::vector<std::string> replaced(const StringTensor& in, const std::string& pattern,
                                  const std::string& rewrite, bool global = true,
                                  const RunLimits& limits = {}) {
  const auto out = run_one_node("RegexReplace", {in, one(pattern), one(rewrite)},
                                {{"replace_global", global}}, 1, limits);
  return std::get<StringTensor>(out[0]).values();
}

TEST(RegexReplace, RewritesMatchesWithTheirGroups) {
  const StringTensor in({"ab-cd-ef", "", "x-y"}, {3});
  EXPECT_THAT(replaced(in, "(\\w+)-(\\w+)", "\\2 \\1"), ElementsAre("cd ab-ef", "", "y x"));
  EXPECT_THAT(replaced(in, "[a-e]", "<\\0>", false), ElementsAre("<a>b-cd-ef", "", "x-y"));
  EXPECT_THAT(replaced(in, "-", ""), ElementsAre("abcdef", "", "xy"));
  // An empty match stands before every character and at the end; characters are those of UTF-8.
  EXPECT_THAT(replaced(one("\u00E4b"), "", "."), ElementsAre(".\u00E4.b."));
  const auto fixed =
      run_one_node("StaticRegexReplace", {in}, {{"pattern", "[^a-z]"}, {"rewrite", "_"}}, 1);
  EXPECT_THAT(std::get<StringTensor>(fixed[0]).values(), ElementsAre("ab_cd_ef", "", "x_y"));
}

TEST(RegexReplace, RefusesBadExpressionsAndRewrites) {
  EXPECT_THAT(message_of([] { replaced(one("a"), "(", ""); }), HasSubstr("missing )"));
  EXPECT_THAT(message_of([] { replaced(one("a"), "a", "\\1"); }), HasSubstr("cannot replace"));
  EXPECT_THROW(run_one_node("StaticRegexFullMatch", {one("a")}, {{"pattern", "a{9999}"}}, 1),
               InvalidArgument);
  EXPECT_THROW(replaced(one(std::string(10000, 'x')), "", std::string(1000, 'y'), true,
                        {.live_bytes = 1 << 20}),
               ResourceExhausted);
}

TEST(RegexFullMatch, WantsTheWholeText) {
  const StringTensor in({"12", "12a", "", "\n"}, {2, 2});
  const auto found = run_one_node("RegexFullMatch", {in, one("[0-9]*")}, {}, 1);
  const at::Tensor wanted = at::tensor(std::vector<std::int64_t>{1, 0, 1, 0}).to(at::kBool);
  EXPECT_TRUE(std::get<at::Tensor>(found[0]).equal(wanted.reshape({2, 2})));
  const auto fixed = run_one_node("StaticRegexFullMatch", {in}, {{"pattern", "[0-9]*"}}, 1);
  EXPECT_TRUE(std::get<at::Tensor>(fixed[0]).equal(wanted.reshape({2, 2})));
}

}  // namespace
}  // namespace muster::executor
