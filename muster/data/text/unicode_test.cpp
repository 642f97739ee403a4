#include "muster/data/text/unicode.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

// Examples of Unicode's annex 15.
TEST(Unicode, HasTheFourNormalForms) {
  const std::string text = "\u212b\ufb01\u1e9b\u0323";
  EXPECT_EQ(normalised(text, NormalForm::kNfc), "\u00c5\ufb01\u1e9b\u0323");
  EXPECT_EQ(normalised(text, NormalForm::kNfd), "A\u030a\ufb01\u017f\u0323\u0307");
  EXPECT_EQ(normalised(text, NormalForm::kNfkc), "\u00c5fi\u1e69");
  EXPECT_EQ(normalised(text, NormalForm::kNfkd), "A\u030afis\u0323\u0307");
  EXPECT_EQ(normalised(std::string("a\0\u00e9", 4), NormalForm::kNfd),
            std::string("a\0e\u0301", 5));
}

TEST(Unicode, LowersLettersOneByOne) {
  EXPECT_EQ(lower_case("ABC \u00c9\u03a3 \u0416\u1e9e"), "abc \u00e9\u03c3 \u0436\u00df");
  EXPECT_EQ(lower_case("\u0130"), "i\u0307");
}

TEST(Unicode, FindsWhatIsNotUtf8) {
  EXPECT_EQ(first_invalid_utf8("a\u00e9\u6771\U0001f642"), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("\xf4\x8f\xbf\xbf"), std::nullopt);
  for (const std::string bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe6\x9d",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xe6\x9d"
        "a"}) {
    EXPECT_EQ(first_invalid_utf8("ab" + bad), 2U) << bad.size();
    EXPECT_THROW(normalised("ab" + bad, NormalForm::kNfc), InvalidArgument);
  }
}

}  // namespace
}  // namespace muster
