#include "http/request_parser.h"

#include <algorithm>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>

#include "http/target.h"

namespace unspool::http {
namespace {

namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

// A string body that grows with what has come. Beast's own reserves the declared length at once, so that a few headers
// could ask for more memory than there is.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(bhttp::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, beast::error_code& ec) { ec = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, beast::error_code& ec) {
      ec = {};
      size_t taken = 0;
      for (const auto buffer : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        taken += buffer.size();
      }
      return taken;
    }
    void finish(beast::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

using Parser = bhttp::request_parser<GrowingBody>;

std::string lower(beast::string_view text) {
  std::string lowered(text);
  std::transform(lowered.begin(), lowered.end(), lowered.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return lowered;
}

}  // namespace

struct RequestParser::Impl {
  Parser parser;
};

RequestParser::RequestParser(const RequestLimits& limits) : impl_(std::make_unique<Impl>()), limits_(limits) {
  impl_->parser.eager(true);  // body in the same call as the header
  impl_->parser.header_limit(static_cast<uint32_t>(std::min<size_t>(limits.max_header_bytes, UINT32_MAX)));
  impl_->parser.body_limit(limits.max_body_bytes);
}

RequestParser::~RequestParser() = default;

void RequestParser::fail(int status, std::string_view detail) {
  error_status_ = status;
  error_detail_ = detail;
}

size_t RequestParser::put(std::string_view bytes) {
  Parser& parser = impl_->parser;
  if (error_status_ != 0 || parser.is_done() || bytes.empty()) return 0;
  const bool had_header = parser.is_header_done();
  beast::error_code ec;
  const size_t taken = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  if (ec == bhttp::error::need_more) {
    // What the parser waits for before it takes a byte: a header's or a chunk header's end. Neither may grow for ever.
    if (bytes.size() - taken >= limits_.max_header_bytes) fail(431, "Request header fields too large");
  } else if (ec == bhttp::error::header_limit) {
    fail(431, "Request header fields too large");
  } else if (ec == bhttp::error::body_limit) {
    fail(413, "Request body too large");
  } else if (ec) {
    fail(400, "Invalid HTTP request received.");
  }
  // A body in a coding that is not understood would be read as the next request.
  if (error_status_ == 0 && !had_header && parser.is_header_done() && !parser.chunked() &&
      parser.get().find(bhttp::field::transfer_encoding) != parser.get().end()) {
    fail(400, "Unsupported transfer encoding");
  }
  return taken;
}

bool RequestParser::header_done() const {
  return impl_->parser.is_header_done();
}
bool RequestParser::done() const {
  return error_status_ == 0 && impl_->parser.is_done();
}
bool RequestParser::http_1_0() const {
  return impl_->parser.get().version() < 11;
}
bool RequestParser::keep_alive() const {
  return !http_1_0() && impl_->parser.get().keep_alive();
}

bool RequestParser::expects_continue() const {
  return !http_1_0() && beast::iequals(impl_->parser.get()[bhttp::field::expect], "100-continue");
}

HttpRequest RequestParser::release() {
  auto message = impl_->parser.release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  Target target = split_target(message.target());
  request.path = std::move(target.path);
  request.query = std::move(target.query);
  for (const auto& field : message)
    request.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
  request.body = std::move(message.body());
  return request;
}

}  // namespace unspool::http
