#include "muster/console/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/console/event_files_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Report, HasAllThatItNeedsInOneFile) {
  const testing::TempDir folder;
  write_scalars(folder / "census" / kEvents, "</script><b>", {{1, 4.0F}, {2, 3.0F}});
  const std::string html = report_html({.runs = {folder / "census"}, .title = "a < b"});
  EXPECT_THAT(html, AllOf(HasSubstr("<title>a &#60; b</title>"), HasSubstr("\"muster/dom.js\""),
                          HasSubstr(R"("steps":[1,2])"), HasSubstr(R"(\u003c/script>\u003cb>)")));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("</script><b>")), Not(HasSubstr("src=")),
                          Not(HasSubstr("http:")), Not(HasSubstr("https:"))));
}

TEST(Report, OfNothingIsRefused) {
  const testing::TempDir folder;
  EXPECT_THROW(report_html({}), InvalidArgument);
  EXPECT_THROW(report_html({.runs = {folder.path()}}), NotFound);
  try {
    report_html({.runs = {folder / "none"}});
    FAIL() << "a report of no folder";
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), HasSubstr("/none: there is no such folder"));
  }
}

}  // namespace
}  // namespace muster::console
