#include "muster/data/sentence_piece/sentence_piece.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

// Made by spm_train 0.1.97 of the text of a licence, with lower case, U+FB01, U+2460 and U+3000 in
// their tables of normalisation: 70 pieces of the unigram model, 90 byte pairs.
constexpr std::string_view kUnigram =
    "Cg4KBTx1bms+FQAAAAAYAgoMCgM8cz4VAAAAABgDCg0KBDwvcz4VAAAAABgDCg4KBTxwYWQ+FQAAAAAYAwoPCgY8bWFzaz"
    "4VAAAAABgECgoKA+KWgRWnR/u/CggKAWUV89cywAoICgFpFVynN8AKCAoBcxVZmDjACggKAXQV2bk6wAoICgFvFTVNRsAK"
    "CAoBchV8gkfACggKAWEVpUlRwAoICgFjFS6aVcAKCAoBbhX0HVnACggKAWwVDypkwAoICgFtFXhzasAKCAoBZBUfj23ACg"
    "gKAXAV/bFuwAoICgF1FbYxdcAKCwoE4paBYRVsQIDACg0KBuKWgXRoZRXBL4LACggKAXkVF8WCwAoICgFmFfwGhcAKCAoB"
    "LBVG0ojACgkKAmVyFQPjisAKCAoBZxX4NIvACggKAWIVShaNwAoMCgXiloFvZhUEmJLACggKAXcVmWeTwAoICgEuFRprlM"
    "AKCAoBdhUK3ZbACgwKBeKWgXRvFd7PmcAKDAoF4paBaW4Vn6abwAoJCgJlZBXb0pzACgkKAmFsFVqmncAKDQoG4paBeW91"
    "FXL0ncAKCQoCZW4VTmCewAoKCgNpbmcVe6+fwAoMCgXiloFvchVtW6HACgwKBeKWgXJlFZMLqMAKCgoDaW9uFZUkqcAKEQ"
    "oK4paBbGljZW5zZRWeg6nACg4KB+KWgXdvcmsVDWGqwAoKCgNhdGUVNKSswAoNCgbiloFmb3IVkMytwAoNCgbiloFhbmQV"
    "huauwAoICgEiFUvUs8AKCAoBaxWAVrrACggKASkVquW9wAoICgF4FcIfwMAKCAoBLRVJn9vACggKAScVUJ/bwAoICgEvFZ"
    "mX4cAKCAoBOxWy7+bACggKATAV+VrtwAoICgEyFSHR78AKCAoBOhWIZPXACggKAT4VuZf4wAoICgEzFfEl/MAKCAoBNhX5"
    "EgDBCggKAWoV+RIAwQoICgE3FYY3CMEKCAoBPBXvNwjBCggKAXoVWDgIwQoICgExFcA4CMEKCAoBcRUpOQjBCggKASgVkj"
    "kIwQoICgE0Ffs5CMEKCAoBaBX7OQjBEk4KIC91c3Ivc2hhcmUvY29tbW9uLWxpY2Vuc2VzL0dQTC0zEhQvdG1wL3RrL3Nw"
    "L3VuaV9zbWFsbBgBIEaAAQH6AQY8bWFzaz6IAgDYAgMa4wgKDHVzZXJfZGVmaW5lZBLACAAEAAAAAAEAQWkAAEJ5AABDeQ"
    "AARGkAAEVpAABGmQAAR5kAAEipAABJqQAASrkAAEu5AABMqQAATakAAE6ZAABPmQAAUOkAAFHpAABS+QAAU/kAAFTpAABV"
    "6QAAVpkAAFeZAABYqQAAWakAAFq5AAAFAACABwAAgAkAAIALAACADQAAgA8AAIAUAACAFgAAgBgAAIAaAACAHAAAgB4AAI"
    "AgAACAIgAAgCQAAIAmAACAKAAAgCoAAIAsAACALgAAgDAAAIAyAACANAAAgDYAAIA4AACAOgAAgK0NAAAAAACAkbgCAAMA"
    "AICgBQAAgAQCAIAdAAABAACArAgCAIEFAAARAACAQQAAAEAAAABDAAAAQgAAAEUAAABEAAAARwAAAEYAAABJAAAASAAAAE"
    "sAAABKAAAATQAAAEwAAABPAAAATgAAAFEAAABQAAAAUwAAAFIAAABVAAAAVAAAAFcAAABWAAAAWQAAAFgAAABbAAAAWgAA"
    "AF0AAABcAAAAXwAAAF4AAABhAAAAYAAAAGMAAABiAAAAZQAAAGQAAABnAAAAZgAAAGkAAABoAAAAawAAAGoAAABtAAAAbA"
    "AAAG8AAABuAAAAcQAAAHAAAABzAAAAcgAAAHUAAAB0AAAAdwAAAHYAAAB5AAAAeAAAAHsAAAB6AAAAfQAAAHwAAAB/AAAA"
    "fgAAAIEAAACAAAAAwmgAAIIAAACFAAAAhAAAAIcAAACGAAAAiQAAAIgAAACLAAAAigAAAI0AAACMAAAAjwAAAI4AAACRAA"
    "AAkAAAAJMAAACSAAAAlQAAAJQAAACXAAAAlgAAAJkAAACYAAAAmwAAAJoAAACdAAAAnAAAAJ8AAACeAAAAoQAAAKAAAADi"
    "EAAA42QAAKUAAACkAAAApwAAAKYAAACpAAAAqAAAAKsAAACqAAAArQAAAKwAAACvAAAA7/gAALEAAACwAAAAswAAALIAAA"
    "C1AAAAtAAAALcAAAC2AAAAuQAAALgAAAC7AAAAugAAAL0AAAC8AAAAvwAAAL4AAADBAAAAwAAAAMMAAADCAAAAxQAAAMQA"
    "AADHAAAAxgAAAMkAAADIAAAAywAAAMoAAADNAAAAzAAAAM8AAADOAAAA0QAAANAAAADTAAAA0gAAANUAAADUAAAA1wAAAN"
    "YAAADZAAAA2AAAANsAAADaAAAA3QAAANwAAADfAAAA3gAAAOEAAADgAAAA4wAAAOIAAADlAAAA5AAAAOcAAADmAAAA6QAA"
    "AOgAAADrAAAA6gAAAO0AAADsAAAA7wAAAO4AAADxAAAA8AAAAPMAAADyAAAA9QAAAPQAAAD3AAAA9gAAAPkAAAD4AAAA+w"
    "AAAPoAAAD9AAAA/AAAAP8AAAD+AAAAACAAMQBhAGIAYwBkAGUAZgBmaQBnAGgAaQBqAGsAbABtAG4AbwBwAHEAcgBzAHQA"
    "dQB2AHcAeAB5AHoAMhAvdG1wL3RrL3NwL3IudHN2";
constexpr std::string_view kBytePairs =
    "Cg4KBTx1bms+FQAAAAAYAgoMCgM8cz4VAAAAABgDCg0KBDwvcz4VAAAAABgDCg4KBTxwYWQ+FQAAAAAYAwoPCgY8bWFzaz"
    "4VAAAAABgECgsKBOKWgXQVAAAAgAoLCgTiloFhFQAAgL8KDAoF4paBdGgVAAAAwAoJCgJlchUAAEDACgsKBOKWgW8VAACA"
    "wAoJCgJpbhUAAKDACgkKAm9uFQAAwMAKCwoE4paBYxUAAODACg0KBuKWgXRoZRUAAADBCgsKBOKWgXAVAAAQwQoJCgJvch"
    "UAACDBCgkKAmVuFQAAMMEKCQoCcmUVAABAwQoJCgJhdBUAAFDBCgsKBOKWgXcVAABgwQoJCgJzZRUAAHDBCgkKAmljFQAA"
    "gMEKCQoCb3UVAACIwQoKCgNpb24VAACQwQoJCgJpcxUAAJjBCgwKBeKWgW9mFQAAoMEKCQoCaXQVAACowQoLCgTiloFzFQ"
    "AAsMEKCQoCZWQVAAC4wQoLCgTiloFmFQAAwMEKCQoCcm8VAADIwQoLCgTiloFsFQAA0MEKCwoE4paBbRUAANjBCgwKBeKW"
    "gXRvFQAA4MEKDAoF4paBY28VAADowQoMCgXiloFhbhUAAPDBCgwKBeKWgWluFQAA+MEKCgoDaW5nFQAAAMIKCwoE4paBeR"
    "UAAATCCg0KBuKWgXlvdRUAAAjCCgkKAmFsFQAADMIKCQoCYW4VAAAQwgoMCgXiloFvchUAABTCCgkKAmVzFQAAGMIKCgoD"
    "4paBFQAAHMIKCAoBZRUAACDCCggKAW8VAAAkwgoICgF0FQAAKMIKCAoBchUAACzCCggKAWkVAAAwwgoICgFhFQAANMIKCA"
    "oBbhUAADjCCggKAXMVAAA8wgoICgFjFQAAQMIKCAoBaBUAAETCCggKAWwVAABIwgoICgFkFQAATMIKCAoBdRUAAFDCCggK"
    "AXAVAABUwgoICgFmFQAAWMIKCAoBbRUAAFzCCggKAXkVAABgwgoICgFnFQAAZMIKCAoBdxUAAGjCCggKAXYVAABswgoICg"
    "FiFQAAcMIKCAoBLBUAAHTCCggKAS4VAAB4wgoICgFrFQAAfMIKCAoBIhUAAIDCCggKASkVAACCwgoICgF4FQAAhMIKCAoB"
    "KBUAAIbCCggKAXEVAACIwgoICgExFQAAisIKCAoBahUAAIzCCggKAScVAACOwgoICgEtFQAAkMIKCAoBLxUAAJLCCggKAT"
    "sVAACUwgoICgEwFQAAlsIKCAoBMhUAAJjCCggKAToVAACawgoICgF6FQAAnMIKCAoBPBUAAJ7CCggKAT4VAACgwgoICgEz"
    "FQAAosIKCAoBNhUAAKTCCggKATcVAACmwgoICgE0FQAAqMISTgogL3Vzci9zaGFyZS9jb21tb24tbGljZW5zZXMvR1BMLT"
    "MSFC90bXAvdGsvc3AvYnBlX3NtYWxsGAIgWoABAfoBBjxtYXNrPogCANgCAxrjCAoMdXNlcl9kZWZpbmVkEsAIAAQAAAAA"
    "AQBBaQAAQnkAAEN5AABEaQAARWkAAEaZAABHmQAASKkAAEmpAABKuQAAS7kAAEypAABNqQAATpkAAE+ZAABQ6QAAUekAAF"
    "L5AABT+QAAVOkAAFXpAABWmQAAV5kAAFipAABZqQAAWrkAAAUAAIAHAACACQAAgAsAAIANAACADwAAgBQAAIAWAACAGAAA"
    "gBoAAIAcAACAHgAAgCAAAIAiAACAJAAAgCYAAIAoAACAKgAAgCwAAIAuAACAMAAAgDIAAIA0AACANgAAgDgAAIA6AACArQ"
    "0AAAAAAICRuAIAAwAAgKAFAACABAIAgB0AAAEAAICsCAIAgQUAABEAAIBBAAAAQAAAAEMAAABCAAAARQAAAEQAAABHAAAA"
    "RgAAAEkAAABIAAAASwAAAEoAAABNAAAATAAAAE8AAABOAAAAUQAAAFAAAABTAAAAUgAAAFUAAABUAAAAVwAAAFYAAABZAA"
    "AAWAAAAFsAAABaAAAAXQAAAFwAAABfAAAAXgAAAGEAAABgAAAAYwAAAGIAAABlAAAAZAAAAGcAAABmAAAAaQAAAGgAAABr"
    "AAAAagAAAG0AAABsAAAAbwAAAG4AAABxAAAAcAAAAHMAAAByAAAAdQAAAHQAAAB3AAAAdgAAAHkAAAB4AAAAewAAAHoAAA"
    "B9AAAAfAAAAH8AAAB+AAAAgQAAAIAAAADCaAAAggAAAIUAAACEAAAAhwAAAIYAAACJAAAAiAAAAIsAAACKAAAAjQAAAIwA"
    "AACPAAAAjgAAAJEAAACQAAAAkwAAAJIAAACVAAAAlAAAAJcAAACWAAAAmQAAAJgAAACbAAAAmgAAAJ0AAACcAAAAnwAAAJ"
    "4AAAChAAAAoAAAAOIQAADjZAAApQAAAKQAAACnAAAApgAAAKkAAACoAAAAqwAAAKoAAACtAAAArAAAAK8AAADv+AAAsQAA"
    "ALAAAACzAAAAsgAAALUAAAC0AAAAtwAAALYAAAC5AAAAuAAAALsAAAC6AAAAvQAAALwAAAC/AAAAvgAAAMEAAADAAAAAww"
    "AAAMIAAADFAAAAxAAAAMcAAADGAAAAyQAAAMgAAADLAAAAygAAAM0AAADMAAAAzwAAAM4AAADRAAAA0AAAANMAAADSAAAA"
    "1QAAANQAAADXAAAA1gAAANkAAADYAAAA2wAAANoAAADdAAAA3AAAAN8AAADeAAAA4QAAAOAAAADjAAAA4gAAAOUAAADkAA"
    "AA5wAAAOYAAADpAAAA6AAAAOsAAADqAAAA7QAAAOwAAADvAAAA7gAAAPEAAADwAAAA8wAAAPIAAAD1AAAA9AAAAPcAAAD2"
    "AAAA+QAAAPgAAAD7AAAA+gAAAP0AAAD8AAAA/wAAAP4AAAAAIAAxAGEAYgBjAGQAZQBmAGZpAGcAaABpAGoAawBsAG0Abg"
    "BvAHAAcQByAHMAdAB1AHYAdwB4AHkAegAyEC90bXAvdGsvc3Avci50c3Y=";

struct SentencePieceCase {
  std::string text;
  std::vector<std::int64_t> ids;
  std::string decoded;
};

void expect_pieces(std::string_view model, const std::vector<SentencePieceCase>& cases) {
  const auto tokenizer = sentence_piece_from_bytes(base64_decode(model));
  for (const auto& [text, ids, decoded] : cases) {
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids), decoded);
  }
}

// Ids and texts of Debian's python3-sentencepiece.
TEST(SentencePiece, GivesTheIdsOfPythonsSentencepiece) {
  expect_pieces(
      kUnigram,
      {
          {"The licensor, of the Software!",
           {21, 5, 15, 7, 13, 37, 8, 10, 11, 24, 28, 21, 5, 8, 10, 23, 9, 29, 12, 11, 6, 0},
           "the licensor, of the software \u2047 "},
          {"\ufb01rst \u2460st  PROGRAM\u3000te\u00adxt",
           {5, 23, 7, 11, 8, 9, 5, 65, 8, 9, 5, 18, 11, 10, 26, 11, 12, 16, 5, 9, 6, 50, 9},
           "first 1st program text"},
          {"", {}, ""},
          {"  ", {}, ""},
          {"na\u00efve", {5, 14, 12, 0, 31, 6}, "na \u2047 ve"},
          {"<mask> copyright", {5, 4, 5, 13, 10, 18, 22, 11, 7, 26, 69, 9}, "<mask> copyright"},
      });
  expect_pieces(
      kBytePairs,
      {
          {"The licensor, of the Software!",
           {13, 31, 21, 16, 52, 15, 66, 25, 13, 27, 46, 59, 47, 63, 50, 17, 0},
           "the licensor, of the software \u2047 "},
          {"<mask> copyright", {44, 4, 34, 58, 61, 48, 49, 62, 54, 47}, "<mask> copyright"},
      });
}

TEST(SentencePiece, KnowsPiecesByNameAndById) {
  const testing::TempDir folder;
  testing::write_bytes(folder / "m.model", base64_decode(kUnigram));
  const auto tokenizer = sentence_piece_tokenizer(folder / "m.model");
  EXPECT_EQ(tokenizer->size(), 70);
  EXPECT_EQ(tokenizer->id("<mask>"), 4);
  EXPECT_EQ(tokenizer->token(21), "\u2581the");
  EXPECT_EQ(tokenizer->find("<unk>"), 0);
  EXPECT_EQ(tokenizer->find("zebra"), std::nullopt);
  EXPECT_THROW(tokenizer->token(70), OutOfRange);
  EXPECT_THROW(tokenizer->decode(std::vector<std::int64_t>{-1}), OutOfRange);
  EXPECT_THAT(message_of([&] { tokenizer->encode("a\xff"); }), HasSubstr("0xff at offset 1"));
}

std::string message_of_model(const std::string& model) {
  return message_of([&] { sentence_piece_from_bytes(model); });
}

TEST(SentencePiece, RefusesDamagedModelsWithTheOffset) {
  const std::string model = base64_decode(kUnigram);
  EXPECT_THAT(message_of_model(""), HasSubstr("no pieces"));
  EXPECT_THROW(sentence_piece_from_bytes("nonsense"), Error);
  for (const std::size_t size : {std::size_t{5}, model.size() / 2, model.size() - 1}) {
    EXPECT_THROW(sentence_piece_from_bytes(std::string_view(model).substr(0, size)), Error) << size;
  }
  std::string no_number = model;
  // The first piece: its tag and length, then "<unk>" with a tag and a length, then a score.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(no_number.data() + no_number.find("<unk>") + 6, &nan, sizeof nan);
  EXPECT_THAT(message_of_model(no_number), HasSubstr("piece 0 at offset 2"));
  std::string no_text = model;
  no_text[model.find("<unk>")] = '\xff';
  EXPECT_THAT(message_of_model(no_text), HasSubstr("not UTF-8"));
  const testing::TempDir folder;
  testing::write_bytes(folder / "m.model", no_text);
  EXPECT_THAT(message_of([&] { sentence_piece_tokenizer(folder / "m.model"); }),
              HasSubstr("m.model: piece 0"));
}

// libsentencepiece itself reads outside of memory with such a table.
TEST(SentencePiece, RefusesTablesOfNormalisationThatLeadOutside) {
  const std::string model = base64_decode(kUnigram);
  // The name of the rules, then the table: a tag, two bytes of length, the trie's length.
  const std::string name = "user_defined";
  const std::size_t table = model.find(name) + name.size() + 3;
  ASSERT_EQ(model[table - 3], '\x12');
  const auto with_unit = [&](std::size_t at, std::uint32_t value) {
    std::string changed = model;
    std::memcpy(changed.data() + at, &value, sizeof value);
    return message_of_model(changed);
  };
  EXPECT_THAT(with_unit(table, 0x7ffffff0), HasSubstr("says that its trie has"));
  EXPECT_THAT(with_unit(table, 3), HasSubstr("says that its trie has"));
  EXPECT_THAT(with_unit(table + 4, 0x7ffffc00), HasSubstr("a branch leads out of the trie"));
  EXPECT_THAT(with_unit(table + 8, 0xffffffff), HasSubstr("a value lies outside of the texts"));
}

}  // namespace
}  // namespace muster
