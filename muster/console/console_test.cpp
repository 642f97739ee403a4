#include "muster/console/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "muster/console/event_files_internal.h"
#include "muster/console/listening_page_internal.h"
#include "muster/console/web_files.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using nlohmann::json;
using serving::HttpResponse;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleTest() { write_scalars(folder_ / "census" / kEvents, "loss", {{1, 4.0F}, {2, 3.0F}}); }

  Console& open() {
    console_.emplace(ConsoleOptions{.log_folders = {folder_.path()}});
    return *console_;
  }
  HttpResponse get(const std::string& target, serving::Headers headers = {}) {
    if (!console_) open();
    headers.emplace_back("Host", "localhost:6800");
    return console_->handle({.method = "GET",
                             .target = target,
                             .headers = std::move(headers),
                             .is_from_this_host = true});
  }
  json data(const std::string& target) {
    const HttpResponse answer = get(target);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }

  testing::TempDir folder_;
  std::optional<Console> console_;
};

TEST(WebFiles, ImportFilesThatAreThere) {
  std::set<std::string, std::less<>> names;
  for (const WebFile& file : web_files()) names.emplace(file.name);
  const std::regex import("(?:from|import) '\\./([^']+)'");
  int imports = 0;
  for (const WebFile& file : web_files()) {
    const std::string text(file.bytes);
    for (std::sregex_iterator it(text.begin(), text.end(), import), end; it != end; ++it) {
      EXPECT_TRUE(names.contains((*it)[1].str())) << file.name << " imports " << (*it)[1];
      ++imports;
    }
  }
  EXPECT_GT(imports, 100);
}

TEST_F(ConsoleTest, PagesComeWithAPolicyThatLetsNothingElseIn) {
  for (const char* page : {"/", "/runs"}) {
    const HttpResponse answer = get(page);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr("<muster-app>"));
    EXPECT_THAT(answer.body, Not(HasSubstr("<style")));
    EXPECT_THAT(answer.headers,
                Contains(Pair("Content-Security-Policy",
                              AllOf(HasSubstr("default-src 'none'"), Not(HasSubstr("unsafe"))))));
    EXPECT_THAT(answer.headers, Contains(Pair("X-Frame-Options", "DENY")));
  }
  EXPECT_THAT(get("/web/app.js").content_type, StartsWith("text/javascript"));
}

TEST_F(ConsoleTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const HttpResponse answer = get("/web/app.js");
  const auto tag =
      std::ranges::find(answer.headers, "ETag", &std::pair<std::string, std::string>::first);
  ASSERT_NE(tag, answer.headers.end());
  EXPECT_EQ(get("/web/app.js", {{"If-None-Match", tag->second}}).status, 304);
}

TEST_F(ConsoleTest, AddressesThatLeadOutLeadNowhere) {
  for (const char* target : {"/web/../CMakeLists.txt", "/web/%2e%2e/CMakeLists.txt",
                             "/../../etc/passwd", "/web//etc/passwd", "/etc/passwd", "/api/../runs",
                             "/api/", "/api/none", "/web/", "/web/app.js/..", "/api/runs/census"}) {
    EXPECT_EQ(get(target).status, 404) << target;
  }
  EXPECT_EQ(get("/api/scalars?run=../../etc&tag=loss").body, R"({"curves":[]})");
}

TEST_F(ConsoleTest, ListsRunsAndGivesTheirCurves) {
  open();
  ASSERT_TRUE(testing::eventually([&] { return data("/api/runs")["runs"][0]["isRead"] == true; }));
  const json run = data("/api/runs")["runs"][0];
  EXPECT_EQ(run["id"], "census");
  EXPECT_EQ(data("/api/runs")["tagSets"][run["tagSet"].get<std::size_t>()]["tags"],
            json::array({"loss"}));
  const json curve = data("/api/scalars?run=census&tag=loss")["curves"][0];
  EXPECT_EQ(curve["steps"], json::array({1, 2}));
  EXPECT_EQ(curve["values"], json::array({4, 3}));
  const HttpResponse csv = get("/api/scalars.csv?run=census&tag=loss");
  EXPECT_EQ(
      csv.body,
      "run,evaluation,step,wall_time,value\ncensus,,1,101.000000,4\ncensus,,2,102.000000,3\n");
  EXPECT_THAT(csv.headers,
              Contains(Pair("Content-Disposition", "attachment; filename=\"loss.csv\"")));
}

TEST_F(ConsoleTest, ATagThatIsMarkupOrAFormulaStaysText) {
  write_scalars(folder_ / "=cmd" / kEvents, "<script>alert(1)</script>\r\nX: y", {{1, 1.0F}});
  const std::string query = "run=%3Dcmd&tag=%3Cscript%3Ealert(1)%3C/script%3E%0D%0AX:%20y";
  EXPECT_EQ(data("/api/scalars?" + query)["curves"].size(), 1U);
  const HttpResponse csv = get("/api/scalars.csv?" + query);
  EXPECT_THAT(csv.body, HasSubstr("\"'=cmd\",,1"));
  for (const auto& [name, value] : csv.headers) EXPECT_THAT(value, Not(HasSubstr("\r"))) << name;
}

TEST_F(ConsoleTest, ValuesThatAreNoNumbersAreNull) {
  write_scalars(folder_ / "nan" / kEvents, "loss",
                {{1, std::numeric_limits<float>::quiet_NaN()}, {2, 1.0F}});
  EXPECT_EQ(data("/api/scalars?run=nan&tag=loss")["curves"][0]["values"],
            json::array({nullptr, 1}));
}

TEST_F(ConsoleTest, PagesAreToldWhenARunGrowsOrANewOneBegins) {
  open();
  ASSERT_TRUE(testing::eventually([&] { return data("/api/runs")["runs"][0]["isRead"] == true; }));
  HttpResponse answer = get("/api/live");
  EXPECT_EQ(answer.content_type, "text/event-stream");
  const auto page = std::make_shared<ListeningPage>();
  answer.stream(page);
  write_scalars(folder_ / "census" / kEvents, "loss", {{1, 4.0F}, {2, 3.0F}, {3, 2.0F}});
  EXPECT_TRUE(testing::eventually([&] { return page->has(R"(data: {"runs":["census"]})"); }));
  write_scalars(folder_ / "other" / "deeper" / kEvents, "loss", {{1, 1.0F}});
  EXPECT_TRUE(testing::eventually([&] { return page->has("event: list"); }));
  EXPECT_TRUE(testing::eventually([&] { return page->has(R"(["other/deeper"])"); }));
  EXPECT_EQ(data("/api/scalars?run=other/deeper&tag=loss")["curves"].size(), 1U);
}

TEST_F(ConsoleTest, OtherMethodsAndHostsAreRefused) {
  open();
  const auto status = [&](const char* method, const char* host) {
    return console_->handle({.method = method, .target = "/api/runs", .headers = {{"Host", host}}})
        .status;
  };
  EXPECT_EQ(status("GET", "localhost"), 200);
  EXPECT_EQ(status("GET", "evil.example"), 403);
  EXPECT_NE(status("POST", "localhost"), 200);
  EXPECT_NE(status("DELETE", "localhost"), 200);
}

}  // namespace
}  // namespace muster::console
