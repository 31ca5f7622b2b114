"""Connects with aioquic and asks on several streams at once: client.py PORT CERTIFICATE"""
import asyncio
import struct
import sys

from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration


async def ask(client, question):
    reader, writer = await client.create_stream()
    writer.write(question)
    writer.write_eof()
    return await reader.read()


async def main(port, certificate):
    configuration = QuicConfiguration(alpn_protocols=["forebay-echo"], server_name="localhost")
    configuration.load_verify_locations(certificate)
    text = bytes(range(256)) * 400
    questions = [b"e" + text, b"r" + struct.pack(">II", 300_000, 50), b"u" + text, b"e"]
    answers = [text, bytes(300_000), struct.pack(">Q", len(text)), b""]
    async with connect("127.0.0.1", port, configuration=configuration) as client:
        assert await asyncio.gather(*(ask(client, question) for question in questions)) == answers
        client.change_connection_id()
        assert await ask(client, b"eby another ID") == b"by another ID"
    print("all answers are right")


asyncio.run(asyncio.wait_for(main(int(sys.argv[1]), sys.argv[2]), 60))
