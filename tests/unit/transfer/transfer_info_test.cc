// What a trainer may announce, and in which words the rest is refused.
#include "transfer/transfer_info.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

constexpr TransferBackend kIpc = TransferBackend::kIpc;
constexpr TransferBackend kGloo = TransferBackend::kGloo;

Result<UpdateInfo> update(TransferBackend backend, const std::string& text) {
  const auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_update_info(backend, document->root());
}
Result<InitInfo> init(TransferBackend backend, const std::string& text) {
  const auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_init_info(backend, document->root());
}

const std::string kTwo = R"("names":["a","b"],"dtype_names":["bfloat16","torch.float32"],"shapes":[[2,3],[]])";
const std::string kPlaces = R"("shm_name":"/x","offsets":[0,12],"nbytes":[12,4])";

TEST(UpdateInfo, Ipc) {
  const auto info = update(kIpc, "{" + kTwo + "," + kPlaces + "}");
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_EQ(info->tensors.size(), 2u);
  EXPECT_EQ(info->tensors[0].name, "a");
  EXPECT_EQ(info->tensors[0].dtype, DType::kBFloat16);
  EXPECT_EQ(info->tensors[0].shape, (Shape{2, 3}));
  EXPECT_EQ(info->tensors[0].size_bytes(), 12u);
  EXPECT_EQ(info->tensors[1].dtype, DType::kFloat32);
  EXPECT_EQ(info->tensors[1].shape, Shape{});
  EXPECT_EQ(info->shm_name, "/x");
  EXPECT_EQ(*info->offsets, (std::vector<int64_t>{0, 12}));
  EXPECT_FALSE(info->partial || info->is_whole_session || info->packing.is_packed());
}

TEST(UpdateInfo, Sparse) {
  const auto info = update(kGloo, "{" + kTwo + R"(,"num_updates_list":[5,0]})");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->tensors[0].num_updates, 5);
  EXPECT_EQ(info->tensors[0].size_bytes(), 5u * (4 + 2));
  EXPECT_EQ(info->tensors[1].size_bytes(), 0u);
}

TEST(UpdateInfo, FormsOfOtherYears) {
  const std::string legacy = kTwo + R"(,"packed":true,"packed_buffer_size_bytes":100,"packed_num_buffers":2,)" +
                             R"("is_checkpoint_format":true,"partial":true)";
  const auto info = update(kGloo, "{" + legacy + "}");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_TRUE(info->partial && info->is_whole_session && info->packing.is_packed());
  EXPECT_EQ(info->packing.buffer_bytes(), 100);
  EXPECT_TRUE(update(kGloo, "[{" + legacy + "},{}]").ok());
  EXPECT_TRUE(update(kIpc, "{" + kTwo + R"(,"shm_name":"x","tensor_sizes":[12,4],"packed":true})").ok());
}

TEST(Packing, TheUpdateWins) {
  const Packing init{.packed = true, .buffer_size_bytes = 7};
  EXPECT_TRUE(Packing().over(init).is_packed());
  EXPECT_EQ(Packing().over(init).buffer_bytes(), 7);
  EXPECT_FALSE(Packing{.packed = false}.over(init).is_packed());
  EXPECT_EQ((Packing{.buffer_size_bytes = 9}.over(init).buffer_bytes()), 9);
  EXPECT_FALSE(Packing().is_packed());
  EXPECT_EQ(Packing().buffer_bytes(), int64_t{1} << 30);
}

struct Refusal {
  std::string body;
  std::string param;
  std::string says;
};

TEST(UpdateInfo, WhatIsRefused) {
  const std::string ipc = "{" + kTwo + "," + kPlaces;
  const std::vector<Refusal> refusals = {
      {"{}", "update_info.names", "missing"},
      {R"({"names":["a"]})", "update_info.dtype_names", "missing"},
      {ipc + R"(,"surprise":1})", "update_info.surprise", "unknown key"},
      {ipc + R"(,"ipc_handles":[1]})", "update_info.ipc_handles", "\"ipc\""},
      {ipc + R"(,"ipc_handles_pickled":"gAS"})", "update_info.ipc_handles_pickled", "no pickle"},
      {ipc + R"(,"is_checkpoint_format":false})", "update_info.is_checkpoint_format", "expected true"},
      {ipc + R"(,"packed":1})", "update_info.packed", "true or false, got 1"},
      {ipc + R"(,"packed":"yes"})", "update_info.packed", R"(true or false, got "yes")"},
      {ipc + R"(,"packed_buffer_size_bytes":0})", "update_info.packed_buffer_size_bytes", "1 or more"},
      {ipc + R"(,"num_updates_list":[7,1]})", "update_info.num_updates_list", "at most the 6 elements"},
      {ipc + R"(,"num_updates_list":[1]})", "update_info.num_updates_list", "2 entries"},
      {ipc + R"(,"num_updates_list":[-1,1]})", "update_info.num_updates_list", "0 or more"},
      {ipc + R"(,"num_updates_list":[1,1]})", "update_info.nbytes", "1 indices and values"},
      {"{" + kTwo + R"(,"offsets":[0,12],"nbytes":[12,4]})", "update_info.shm_name", "missing"},
      {"{" + kTwo + R"(,"shm_name":"x","offsets":[0]})", "update_info.offsets", "2 entries"},
      {"{" + kTwo + R"(,"shm_name":"x","offsets":[0,12],"nbytes":[12]})", "update_info.nbytes", "2 entries"},
      {"{" + kTwo + R"(,"shm_name":"x","offsets":[0,12],"nbytes":[12,5]})", "update_info.nbytes", "expected 4 bytes"},
      {"{" + kTwo + R"(,"shm_name":"x","offsets":[0,-1],"nbytes":[12,4]})", "update_info.offsets", "0 or more"},
      {R"({"names":["a","a"],"dtype_names":["half","half"],"shapes":[[],[]],"shm_name":"x","nbytes":[2,2]})",
       "update_info.names", "twice"},
      {R"({"names":["a",1],"dtype_names":["half","half"],"shapes":[[],[]],"shm_name":"x","nbytes":[2,2]})",
       "update_info.names", "strings"},
  };
  for (const Refusal& refusal : refusals) {
    const auto info = update(kIpc, refusal.body);
    ASSERT_FALSE(info.ok()) << refusal.body;
    EXPECT_EQ(info.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(info.error().param, refusal.param) << info.error().message;
    EXPECT_NE(info.error().message.find(refusal.says), std::string::npos) << info.error().message;
  }
  EXPECT_EQ(update(kGloo, "{" + kTwo + "," + kPlaces + "}").error().param,
            "update_info.shm_name");                                  // not a key of gloo
  EXPECT_EQ(update(kGloo, "[]").error().kind, ErrorKind::kInternal);  // the reference's 500
  EXPECT_EQ(update(kGloo, "[1]").error().kind, ErrorKind::kInvalidArgument);
}

TEST(UpdateInfo, ShapesThatAreNone) {
  for (const auto& [dtype, shape] :
       std::vector<std::pair<std::string, std::string>>{{"int8", "[2]"},
                                                        {"float6_e2m3fn", "[2]"},
                                                        {"bf16", "[2]"},
                                                        {"bfloat16", "[-1]"},
                                                        {"bfloat16", "[1.5]"},
                                                        {"bfloat16", "[1,1,1,1,1,1,1,1,1]"},
                                                        {"bfloat16", "[4611686018427387904,4]"},
                                                        {"bfloat16", "[9223372036854775807]"},
                                                        {"bfloat16", "2"}}) {
    const auto info = update(kGloo, R"({"names":["a"],"dtype_names":[")" + dtype + R"("],"shapes":[)" + shape + "]}");
    ASSERT_FALSE(info.ok()) << dtype << shape;
    EXPECT_EQ(info.error().kind, ErrorKind::kInvalidArgument);
  }
  // An extent of zero makes nothing of any other.
  EXPECT_TRUE(update(kGloo, R"({"names":["a"],"dtype_names":["half"],"shapes":[[9223372036854775807,0]]})").ok());
}

const std::string kMeeting = R"("master_address":"10.0.0.1","master_port":29500,"rank_offset":1,"world_size":3)";

TEST(InitInfo, Gloo) {
  const auto info = init(kGloo, "{" + kMeeting + R"(,"packed":true,"packed_num_buffers":2})");
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->master_address, "10.0.0.1");
  EXPECT_EQ(info->master_port, 29500);
  EXPECT_EQ(info->rank, 1);
  EXPECT_EQ(info->world_size, 3);
  EXPECT_TRUE(info->packing.is_packed());
}

TEST(InitInfo, WhatIsRefused) {
  EXPECT_TRUE(init(kIpc, "{}").ok());
  EXPECT_TRUE(init(kIpc, R"({"packed":false})").ok());
  EXPECT_EQ(init(kIpc, "{" + kMeeting + "}").error().param, "init_info.master_address");
  EXPECT_NE(init(kIpc, "{" + kMeeting + "}").error().message.find("unknown key"), std::string::npos);
  EXPECT_EQ(init(kGloo, "{}").error().param, "init_info.master_address");
  EXPECT_EQ(init(kGloo, R"({"nccl_unique_id_b64":"AA=="})").error().param, "init_info.nccl_unique_id_b64");
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"29500", "0"},
                                                        {"29500", "65536"},
                                                        {"29500", "\"29500\""},
                                                        {"\"10.0.0.1\"", "\"\""},
                                                        {"\"world_size\":3", "\"world_size\":1"},
                                                        {"\"rank_offset\":1", "\"rank_offset\":3"},
                                                        {"\"rank_offset\":1", "\"rank_offset\":0"}}) {
    std::string text = "{" + kMeeting + "}";
    text.replace(text.find(from), from.size(), to);
    EXPECT_FALSE(init(kGloo, text).ok()) << text;
  }
}

}  // namespace
}  // namespace unspool
