#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/serving/http/http_request_reader_internal.h"

namespace muster::serving {
namespace {

using ::testing::HasSubstr;
using Step = HttpRequestReader::Step;

class HttpRequestReaderTest : public ::testing::Test {
 protected:
  static HttpServerOptions small_limits() {
    HttpServerOptions options;
    options.max_header_bytes = 512;
    options.max_body_bytes = 64 << 10;
    options.log_requests = true;
    options.body_budget = std::make_shared<ByteBudget>(std::size_t{32} << 10);
    return options;
  }

  // Puts bytes into the reader, `piece` at a time, up to a step other than kReadMore.
  Step put(std::string_view bytes, std::size_t piece = 1 << 10) {
    while (!bytes.empty()) {
      const auto room = reader_.prepare();
      const std::size_t size = std::min({bytes.size(), room.size(), piece});
      std::copy_n(bytes.begin(), size, room.begin());
      bytes.remove_prefix(size);
      reader_.commit(size);
      Step step = reader_.parse();
      if (step == Step::kHeader) step = reader_.parse();
      if (step != Step::kReadMore) return step;
    }
    return Step::kReadMore;
  }

  const HttpServerOptions options_ = small_limits();
  HttpRequestReader reader_{options_};
  HttpExchange exchange_;
};

TEST_F(HttpRequestReaderTest, TakesARequestHoweverItIsCut) {
  for (const std::size_t piece : {1, 3, 1'000}) {
    EXPECT_FALSE(reader_.begin());
    ASSERT_EQ(put("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", piece),
              Step::kWhole);
    const HttpRequest request = reader_.take(exchange_);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(request.header("host"), "h");
    EXPECT_TRUE(exchange_.keep_alive);
    EXPECT_EQ(exchange_.version, 11u);
    EXPECT_EQ(exchange_.logged, "POST /a");
  }
}

TEST_F(HttpRequestReaderTest, KeepsWhatIsThereOfTheNextRequest) {
  reader_.begin();
  ASSERT_EQ(put("HEAD /a HTTP/1.0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"), Step::kWhole);
  EXPECT_EQ(reader_.take(exchange_).method, "GET");
  EXPECT_TRUE(exchange_.is_head);
  EXPECT_FALSE(exchange_.keep_alive);
  EXPECT_TRUE(reader_.begin());
  EXPECT_EQ(reader_.parse(), Step::kHeader);
  EXPECT_EQ(reader_.parse(), Step::kWhole);
  EXPECT_EQ(reader_.take(exchange_).target, "/b");
  EXPECT_FALSE(exchange_.is_head);
}

TEST_F(HttpRequestReaderTest, SaysWhenAClientWaitsForAnInterimAnswer) {
  reader_.begin();
  const std::string_view header =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  const auto room = reader_.prepare();
  std::ranges::copy(header, room.begin());
  reader_.commit(header.size());
  ASSERT_EQ(reader_.parse(), Step::kHeader);
  EXPECT_TRUE(reader_.waits_for_continue());
  ASSERT_EQ(put("{}"), Step::kWhole);
  EXPECT_FALSE(reader_.waits_for_continue());
}

TEST_F(HttpRequestReaderTest, RefusesWithTheStatusOfWhatIsWrong) {
  const auto refusal = [&](const std::string& bytes) {
    HttpRequestReader reader(options_);
    reader.begin();
    const auto room = reader.prepare();
    std::ranges::copy(bytes, room.begin());
    reader.commit(bytes.size());
    Step step = reader.parse();
    if (step == Step::kHeader) step = reader.parse();
    EXPECT_EQ(step, Step::kRefused) << bytes;
    return reader.refusal();
  };
  EXPECT_EQ(refusal("no HTTP\r\n\r\n").status, 400);
  EXPECT_THAT(refusal("GET / HTTP/1.1\r\n\r\n").text, HasSubstr("Host"));
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(600, 'x') + "\r\n\r\n").status,
            431);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n").status, 413);
}

TEST_F(HttpRequestReaderTest, HoldsOfTheBudgetWhatItsBodyTakes) {
  reader_.begin();
  const std::string header = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n";
  ASSERT_EQ(put(header + std::string(10'000, 'x')), Step::kReadMore);
  EXPECT_GE(options_.body_budget->used(), 10'000u);
  ASSERT_EQ(put(std::string(30'000, 'x')), Step::kRefused);
  EXPECT_EQ(reader_.refusal().status, 429);
  reader_.end();
  EXPECT_EQ(options_.body_budget->used(), 0u);
}

}  // namespace
}  // namespace muster::serving
