// Bytes of a connection to one request. Beast's parser with our limits; its types stay in request_parser.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "http/server.h"

namespace unspool::http {

struct RequestLimits {
  size_t max_header_bytes = 0;
  size_t max_body_bytes = 0;
};

class RequestParser {
 public:
  explicit RequestParser(const RequestLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Takes what it can of `bytes` and returns how many that were; the caller keeps the rest and passes it again with
  // more behind it. Takes nothing once done() or failed.
  size_t put(std::string_view bytes);

  bool header_done() const;
  bool done() const;
  // 0, or the status that refuses the request: 400, 413 or 431. `error_detail` says why in words.
  int error_status() const { return error_status_; }
  std::string_view error_detail() const { return error_detail_; }

  // After header_done().
  bool keep_alive() const;  // HTTP/1.1 without "Connection: close"
  bool http_1_0() const;
  bool expects_continue() const;

  // After done(), once.
  HttpRequest release();

 private:
  void fail(int status, std::string_view detail);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  RequestLimits limits_;
  int error_status_ = 0;
  std::string_view error_detail_;
};

}  // namespace unspool::http
