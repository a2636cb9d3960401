#include "chat/template_files.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace unspool::chat {
namespace {

class TemplateFilesTest : public testing::Test {
 protected:
  TemplateFilesTest() : dir_(testing::TempDir() + "/template_files_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ + "/additional_chat_templates");
  }
  ~TemplateFilesTest() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ + "/" + name) << text; }
  std::string chosen(bool has_tools) {
    const auto files = read_template_files(dir_);
    if (!files.ok()) return "error: " + files.error().message;
    const auto source = files->choose(has_tools);
    if (!source.ok()) return "error: " + source.error().message;
    return *source == nullptr ? "none" : **source;
  }

  const std::string dir_;
};

TEST_F(TemplateFilesTest, AModelMayHaveNone) {
  EXPECT_EQ(chosen(false), "none");
}

TEST_F(TemplateFilesTest, TextInTheConfig) {
  write("tokenizer_config.json",
        R"({"chat_template":"config","bos_token":{"content":"<s>"},"eos_token":"</s>","unk_token":null})");
  EXPECT_EQ(chosen(true), "config");
  const auto files = read_template_files(dir_);
  using Tokens = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(files->special_tokens, (Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

TEST_F(TemplateFilesTest, AFileWinsOverTheConfig) {
  write("tokenizer_config.json", R"({"chat_template":"config"})");
  write("chat_template.jinja", "file\r\n");
  EXPECT_EQ(chosen(false), "file\n");
  write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(chosen(false), "file\n");
  EXPECT_EQ(chosen(true), "tools");
}

TEST_F(TemplateFilesTest, NamedOnes) {
  write("tokenizer_config.json",
        R"({"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]})");
  EXPECT_EQ(chosen(false), "d");
  EXPECT_EQ(chosen(true), "t");
  write("tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"r"}]})");
  EXPECT_TRUE(chosen(false).starts_with("error: This model has multiple chat templates with no default specified!"));
}

TEST_F(TemplateFilesTest, BrokenFilesAreErrors) {
  write("tokenizer_config.json", "{");
  EXPECT_TRUE(chosen(false).starts_with("error: "));
  write("tokenizer_config.json", R"({"chat_template":[{"name":"x"}]})");
  EXPECT_TRUE(chosen(false).ends_with("chat_template needs a name and a template in each entry"));
}

}  // namespace
}  // namespace unspool::chat
