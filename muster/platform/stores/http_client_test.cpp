#include "muster/platform/stores/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/stores/http_file_system.h"
#include "muster/testing/http_test_server.h"
#include "muster/testing/message_of.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using testing::CannedResponse;
using ::testing::HasSubstr;
using testing::HttpCall;
using testing::HttpTestServer;
using testing::message_of;
using ::testing::Not;

RetryPolicy fast() {
  return {.most_tries = 5,
          .first_wait = std::chrono::milliseconds(1),
          .longest_wait = std::chrono::milliseconds(3)};
}

HttpResponse send(HttpClient& client, const std::string& url, const RetryPolicy& policy = fast()) {
  return client.send(
      "asking", [&](int) { return HttpRequest{.url = url}; }, policy);
}

TEST(HttpClient, KeepsConnections) {
  HttpTestServer server([](const HttpCall& call) { return CannedResponse{.body = call.path}; });
  HttpClient client;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(client, server.url() + "/a").body, "/a");
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, SendsBodiesAndHeaders) {
  HttpTestServer server([](const HttpCall& call) {
    return CannedResponse{.headers = {{"X-Seen", call.header("x-given")}},
                          .body = call.method + " " + call.body};
  });
  HttpClient client;
  for (const std::string method : {"PUT", "POST"}) {
    const auto response = client.send_once({.method = method,
                                            .url = server.url(),
                                            .headers = {{"X-Given", "this"}},
                                            .body = "the body"});
    EXPECT_EQ(response.body, method + " the body");
    EXPECT_EQ(response.header("x-seen"), "this");
  }
  EXPECT_THAT(message_of([&] {
                client.send_once({.url = server.url(), .headers = {{"X-A", "b\r\nX-C: d"}}});
              }),
              HasSubstr("has a line break"));
}

TEST(HttpClient, RetriesWhatIsWorthIt) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    std::atomic<int> count{0};
    HttpTestServer server([&](const HttpCall&) {
      return count++ < 3 ? CannedResponse{.status = status} : CannedResponse{.body = "at last"};
    });
    HttpClient client;
    EXPECT_EQ(send(client, server.url()).body, "at last") << status;
    EXPECT_EQ(count, 4);
  }
}

TEST(HttpClient, ReturnsOtherStatusesAtOnce) {
  for (const int status : {200, 206, 304, 400, 401, 403, 404, 409, 412, 416, 501}) {
    HttpTestServer server([&](const HttpCall&) { return CannedResponse{.status = status}; });
    HttpClient client;
    EXPECT_EQ(send(client, server.url()).status, status);
    EXPECT_EQ(server.requests(), 1) << status;
  }
}

TEST(HttpClient, ReturnsTheLastAnswerWhenTriesRunOut) {
  HttpTestServer server([](const HttpCall&) { return CannedResponse{.status = 503}; });
  HttpClient client;
  EXPECT_EQ(send(client, server.url()).status, 503);
  EXPECT_EQ(server.requests(), 5);
}

TEST(HttpClient, ObeysRetryAfter) {
  std::atomic<int> count{0};
  HttpTestServer server([&](const HttpCall&) {
    return count++ == 0 ? CannedResponse{.status = 503, .headers = {{"Retry-After", "1"}}}
                        : CannedResponse{};
  });
  HttpClient client;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(send(client, server.url()).status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(HttpClient, GivesUpWhenTheServerAsksForTooMuchPatience) {
  HttpTestServer server([&](const HttpCall&) {
    return CannedResponse{.status = 429, .headers = {{"Retry-After", "3000"}}};
  });
  HttpClient client;
  EXPECT_EQ(send(client, server.url()).status, 429);
  EXPECT_EQ(server.requests(), 1);
}

TEST(HttpClient, NoticesAnswersThatAreCut) {
  for (const std::size_t cut : {0U, 1U, 9U}) {
    HttpTestServer server(
        [&](const HttpCall&) { return CannedResponse{.body = "0123456789", .cut_after = cut}; });
    HttpClient client;
    EXPECT_THAT(message_of([&] { client.send_once({.url = server.url()}); }),
                HasSubstr("transfer closed with"))
        << cut;
  }
}

TEST(HttpClient, RetriesConnectionsThatBreak) {
  std::atomic<int> count{0};
  HttpTestServer server([&](const HttpCall&) {
    switch (count++) {
      case 0:
        return CannedResponse{.hang_up = true};
      case 1:
        return CannedResponse{.body = "0123456789", .cut_after = 5};
      case 2:
        return CannedResponse{.body = "0123456789", .claimed_length = 20};
      default:
        return CannedResponse{.body = "0123456789"};
    }
  });
  HttpClient client;
  EXPECT_EQ(send(client, server.url()).body, "0123456789");
}

TEST(HttpClient, NamesWhereNobodyListens) {
  std::string url;
  {
    url = HttpTestServer([](const HttpCall&) { return CannedResponse{}; }).url();
  }
  HttpClient client;
  EXPECT_THAT(message_of([&] { send(client, url + "/a?token=secret"); }),
              AllOf(HasSubstr("GET " + url + "/a: "), Not(HasSubstr("secret"))));
}

TEST(HttpClient, EndsCallsThatTakeTooLong) {
  HttpTestServer server(
      [](const HttpCall&) { return CannedResponse{.delay = std::chrono::milliseconds(300)}; });
  HttpClient client;
  EXPECT_THROW(client.send_once({.url = server.url(), .timeout = std::chrono::milliseconds(20)}),
               DeadlineExceeded);
}

TEST(HttpClient, RefusesAnswersThatAreTooLong) {
  HttpTestServer server(
      [](const HttpCall&) { return CannedResponse{.body = std::string(1000, 'x')}; });
  HttpClient client;
  EXPECT_THROW(client.send_once({.url = server.url(), .most_answer_bytes = 999}),
               ResourceExhausted);
}

TEST(HttpClient, CanBeCancelled) {
  HttpTestServer server([](const HttpCall&) { return CannedResponse{.status = 503}; });
  HttpClient client;
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  const RetryPolicy slow{.first_wait = std::chrono::seconds(60),
                         .longest_wait = std::chrono::seconds(60)};
  EXPECT_THROW(
      client.send(
          "asking", [&](int) { return HttpRequest{.url = server.url()}; }, slow, stop.get_token()),
      Cancelled);
}

TEST(LoggableUrl, HasNoSecrets) {
  EXPECT_EQ(loggable_url("https://me:secret@host:1/path?token=secret#secret"),
            "https://host:1/path");
  EXPECT_EQ(loggable_url("http://host/a@b"), "http://host/a@b");
}

TEST(HttpFiles, AreReadInRangesAhead) {
  std::string content;
  for (int i = 0; content.size() < (std::size_t{20} << 20); ++i) content += std::to_string(i) + ",";
  HttpTestServer server([&](const HttpCall& call) {
    if (call.path != "/file") return CannedResponse{.status = 404};
    std::size_t begin = 0, end = 0;
    if (std::sscanf(call.header("range").c_str(), "bytes=%zu-%zu", &begin, &end) != 2) {
      return CannedResponse{.headers = {{"Content-Length", std::to_string(content.size())}}};
    }
    end = std::min(end, content.size() - 1);
    return CannedResponse{
        .status = 206,
        .headers = {{"ETag", "\"one\""},
                    {"Content-Range", fmt::format("bytes {}-{}/{}", begin, end, content.size())}},
        .body = content.substr(begin, end - begin + 1)};
  });
  const auto files = make_http_file_system(std::make_shared<Transfers>(), fast());
  const auto file = files->open(server.url() + "/file");
  ASSERT_EQ(file->size(), content.size());
  std::string read(content.size(), '\0');
  EXPECT_EQ(file->read(read), content.size());
  EXPECT_EQ(read, content);
  EXPECT_EQ(server.requests(), 3);
  file->seek(5);
  std::string some(3, '\0');
  file->read(some);
  EXPECT_EQ(some, content.substr(5, 3));
  EXPECT_EQ(files->map(server.url() + "/file", Access::kRandom)->bytes(), content);
  EXPECT_EQ(files->status(server.url() + "/file")->size_bytes, content.size());
  EXPECT_FALSE(files->status(server.url() + "/other"));
  EXPECT_THROW(files->open(server.url() + "/other"), NotFound);
  EXPECT_THROW(files->create(server.url() + "/file"), Unimplemented);
}

TEST(HttpFiles, AreReadFromServersWithoutRanges) {
  HttpTestServer server([&](const HttpCall&) { return CannedResponse{.body = "all of it"}; });
  const auto files = make_http_file_system(std::make_shared<Transfers>(), fast());
  EXPECT_EQ(files->map(server.url() + "/file", Access::kRandom)->bytes(), "all of it");
}

TEST(HttpFiles, AreNotMixedWhenReplaced) {
  const std::string content(std::size_t{9} << 20, 'x');
  std::atomic<int> count{0};
  HttpTestServer server([&](const HttpCall& call) {
    std::size_t begin = 0, end = 0;
    std::sscanf(call.header("range").c_str(), "bytes=%zu-%zu", &begin, &end);
    end = std::min(end, content.size() - 1);
    return CannedResponse{
        .status = 206,
        .headers = {{"ETag", fmt::format("\"{}\"", count++)},
                    {"Content-Range", fmt::format("bytes {}-{}/{}", begin, end, content.size())}},
        .body = content.substr(begin, end - begin + 1)};
  });
  const auto files = make_http_file_system(std::make_shared<Transfers>(), fast());
  EXPECT_THAT(message_of([&] { files->map(server.url() + "/file", Access::kRandom); }),
              HasSubstr("it was replaced while it was read"));
}

}  // namespace
}  // namespace muster::stores
