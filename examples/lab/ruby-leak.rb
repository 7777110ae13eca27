# A server with a planted leak: it remembers every request. LEAK=0 is its healthy twin.
#
# Written with sockets only: Ruby 3 includes no HTTP server.
require 'socket'

LEAKS = ENV['LEAK'] != '0'
REMEMBERED = []

Signal.trap('USR2') { GC.start }
Signal.trap('TERM') { exit!(0) }

def answer(head)
  REMEMBERED << (head * 8) if LEAKS
  body = "hello\n"
  "HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\n\r\n#{body}"
end

def serve(client)
  while (head = client.gets("\r\n\r\n"))
    client.write(answer(head))
  end
rescue SystemCallError
  # The client is gone.
ensure
  client.close
end

server = TCPServer.new('127.0.0.1', Integer(ARGV.fetch(0, 18_005)))
loop { Thread.new(server.accept) { |client| serve(client) } }
