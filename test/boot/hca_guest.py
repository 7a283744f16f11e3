# SPDX-License-Identifier: MIT
"""Just enough of a driver, in Python, to bring the HCA model up over a front end without a VM."""
import mmap
import os
import socket
import struct

RAM = 16 << 20
IN, OUT, DB, ICM, BUF = 0x1000, 0x2000, 0x3000, 0x100000, 0x400000
EQN, CQN, QPN, PD, UAR = 8, 128, 64, 7, 8
KEY_INDEX, VA, MR_PAGE = 0x30000021, 0x7F0000000000, 256
KEY = (KEY_INDEX << 8 | KEY_INDEX >> 24) & 0xFFFFFFFF
HCR, NOP, WRITE, WRITE_IMM, SEND, SEND_IMM, READ, FAA = 0x80680, 0, 8, 9, 10, 11, 16, 18
EQ_PAGE, CQ_PAGE, QP_PAGE = 0, 16, 64


class Guest:
    """A guest's memory and its driver; write(bar, offset, value, size) and read() reach the HCA."""

    def __init__(self, write, read):
        self.write, self.read = write, read
        self.fd = os.memfd_create("ram")
        os.ftruncate(self.fd, RAM)
        self.ram = mmap.mmap(self.fd, RAM)
        self.posted = self.received = self.polled = 0

    def put(self, addr, fmt, *values):
        struct.pack_into(">" + fmt, self.ram, addr, *values)

    def command(self, op, modifier=0, im=0, fields=(), in_param=IN):
        """Run a command; fields are (offset in the mailbox, format, value). Gives the status."""
        self.ram[IN:IN + 4096] = bytes(4096)
        for offset, fmt, value in fields:
            self.put(IN + offset, fmt, value)
        words = (in_param >> 32, in_param & 0xFFFFFFFF, im, 0, OUT, 0xFFFF << 16,
                 1 << 23 | modifier << 12 | op)
        for i, word in enumerate(words):
            self.write(0, HCR + i * 4, int.from_bytes(struct.pack(">I", word), "little"), 4)
        return self.read(0, HCR + 0x18, 4) & 0xFF

    def must(self, op, modifier=0, im=0, fields=(), in_param=IN):
        assert self.command(op, modifier, im, fields, in_param) == 0, hex(op)

    def init_hca(self):
        """Firmware, ICM, INIT_HCA, an event queue for everything, the port."""
        self.must(0xFFF, 0, 1, [(8, "Q", 0x300000 | 8)])
        self.must(0xFF6)
        self.must(0xFFD, in_param=11 << 16)
        self.must(0xFFC, 0, 1, [(8, "Q", 0x200000 | 6)])
        self.must(0xFFA, 0, 11, [f for i in range(11) for f in (
            (i * 16, "Q", i << 16), (i * 16 + 8, "Q", ICM + (i << 16) | 4))])
        for i in range(2048):
            self.put(ICM + 0x90000 + i * 8, "Q", BUF + (i << 12) | 1)
        self.must(0x007, 0, 0, [
            (0, "B", 2), (0x30, "Q", 9), (0x48, "Q", 0x070000 | 7), (0x50, "Q", 0x060000 | 8),
            (0x60, "Q", 0x040000), (0x70, "Q", 0x050000), (0x80, "Q", 0x078000 | 5),
            (0x90, "Q", 0x030000), (0xC0, "Q", 0x0A0000), (0xD3, "B", 8), (0xD7, "B", 3),
            (0xDB, "B", 4), (0xF0, "Q", 0x080000), (0xFB, "B", 8), (0x100, "Q", 0x090000),
            (0x108, "Q", 0x020000), (0x12A, "B", 4)])
        self.must(0x013, 0, EQN, [(0, "I", 9 << 8), (0x0C, "B", 7), (0x1C, "I", EQ_PAGE * 8)])
        self.must(0x012, 0, EQN, in_param=(1 << 64) - 1)
        self.must(0x009, 0, 1)

    def region_and_cq(self):
        self.must(0x00D, 0, KEY_INDEX & 0xFF, [
            (0, "I", 0xF << 28 | 0x7D00), (8, "I", KEY_INDEX), (0x0C, "I", PD), (0x10, "Q", VA),
            (0x18, "Q", 64 * 4096), (0x2C, "Q", MR_PAGE * 8), (0x38, "I", 12)])
        self.must(0x016, 0, CQN, [(0x0C, "I", 6 << 24 | UAR), (0x17, "B", EQN),
                                  (0x1C, "I", CQ_PAGE * 8), (0x38, "Q", DB)])

    def connect(self, lid):
        """A region, a CQ and an RC QP that is connected to itself."""
        self.region_and_cq()
        context = [(8 + 4, "I", PD), (8 + 9, "B", 4 << 3 | 1), (8 + 0x0A, "B", 5 << 3 | 2),
                   (8 + 0x7C, "I", CQN), (8 + 0x9C, "I", CQN), (8 + 0xA0, "Q", DB + 0x800),
                   (8 + 0x90, "I", 7 << 13), (8 + 0xCC, "I", QP_PAGE * 8)]
        self.must(0x019, 0, QPN, context)
        for i in range(32):
            self.put(BUF + QP_PAGE * 4096 + i * 64, "I", 1 << 31)
        self.must(0x01A, 0, QPN, context + [
            (8 + 8, "B", 3 << 5 | 30), (8 + 0x14, "I", QPN), (8 + 0x1E, "H", lid),
            (8 + 0x94, "I", 1 << 24 | 0x100)])
        self.must(0x01B, 0, QPN, context + [(8 + 0x20, "B", 8 << 3), (8 + 0x70, "I", 0x22000),
                                            (8 + 0x78, "I", 0x100)])

    def special_qp(self):
        """QP0, in the place of the RC QP."""
        self.region_and_cq()
        self.must(0x023, 0, QPN)
        context = [(8, "I", 7 << 16), (8 + 4, "I", PD), (8 + 9, "B", 4 << 3 | 1),
                   (8 + 0x0A, "B", 5 << 3 | 2), (8 + 0x7C, "I", CQN), (8 + 0x9C, "I", CQN),
                   (8 + 0xA0, "Q", DB + 0x800), (8 + 0xCC, "I", QP_PAGE * 8)]
        self.must(0x019, 0, QPN, context)
        for i in range(32):
            self.put(BUF + QP_PAGE * 4096 + i * 64, "I", 1 << 31)
        self.must(0x01A, 0, QPN, context)
        self.must(0x01B, 0, QPN, context)

    def post(self, opcode, length, imm=0, offset=0, remote=0x20000, add=0):
        """Post a signalled work request (of the first 32) and ring the doorbell."""
        wqe = bytearray(struct.pack(">I4xII", opcode, 0xC, imm))
        if opcode not in (SEND, SEND_IMM):
            wqe += struct.pack(">QI4x", VA + remote, KEY)
        if opcode == FAA:
            wqe += struct.pack(">QQ", add, 0)
        wqe += struct.pack(">IIQ", length, KEY, VA + offset)
        wqe[7] = len(wqe) // 16
        at = BUF + QP_PAGE * 4096 + self.posted * 64
        self.ram[at + 4:at + len(wqe)] = bytes(wqe[4:])
        self.ram[at:at + 4] = bytes(wqe[:4])
        self.posted += 1
        self.write(2, UAR * 4096 + 0x14, int.from_bytes(struct.pack(">I", QPN << 8), "little"), 4)

    def post_recv(self, length, offset):
        at = BUF + QP_PAGE * 4096 + 32 * 64 + self.received * 32
        self.put(at, "IIQII", length, KEY, VA + offset, 0, 0x100)
        self.received += 1
        self.put(DB + 0x800, "I", self.received)

    def completion(self):
        """The syndrome of the next completion (of the first 64), or None; 0 is success."""
        entry = self.ram[BUF + CQ_PAGE * 4096 + self.polled * 32:][:32]
        if entry[31] >> 7:
            return None
        self.polled += 1
        return entry[0x1B] if entry[31] & 0x1F == 0x1E else 0

    def memory(self, offset, length):
        return self.ram[BUF + MR_PAGE * 4096 + offset:][:length]

    def fill(self, offset, data):
        at = BUF + MR_PAGE * 4096 + offset
        self.ram[at:at + len(data)] = data


VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION, GET_IRQ, SET_IRQS = 1, 2, 3, 4, 5, 7, 8
REGION_READ, REGION_WRITE, DEVICE_RESET, CONFIG, MSIX = 9, 10, 13, 7, 2
CAPABILITIES = (b'{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576,'
                b'"migration":{"pgsize":4096}}}\0')


class VfioClient:
    """The client's end of vfio-user, as QEMU 10.1 speaks it."""

    def __init__(self, path, negotiate=True):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(path))
        self.id = 0
        if negotiate:
            error, body = self.request(VERSION, struct.pack("<HH", 0, 1) + CAPABILITIES)
            assert error == 0 and struct.unpack_from("<HH", body) == (0, 1)
            self.capabilities = body[4:]

    def send(self, command, body=b"", fds=(), flags=0, size=None):
        self.id = self.id + 1 & 0xFFFF
        size = 16 + len(body) if size is None else size
        message = struct.pack("<HHIII", self.id, command, size, flags, 0) + body
        socket.send_fds(self.sock, [message], list(fds))

    def receive(self, length):
        data = b""
        while len(data) < length:
            got = self.sock.recv(length - len(data))
            if not got:
                raise ConnectionError("the model hung up")
            data += got
        return data

    def reply(self, command):
        """The errno and the body of the answer to the request just sent."""
        number, answered, size, flags, error = struct.unpack("<HHIII", self.receive(16))
        assert (number, answered, flags & 0xF) == (self.id, command, 1)
        body = self.receive(size - 16)
        assert bool(flags & 0x20) == bool(error) and not (error and body)
        return error, body

    def request(self, command, body=b"", fds=()):
        self.send(command, body, fds)
        return self.reply(command)

    def read(self, region, offset, size):
        error, body = self.request(REGION_READ, struct.pack("<QII", offset, region, size))
        assert error == 0 and body[:16] == struct.pack("<QII", offset, region, size)
        return int.from_bytes(body[16:], "little")

    def write(self, region, offset, value, size):
        body = struct.pack("<QII", offset, region, size) + value.to_bytes(size, "little")
        assert self.request(REGION_WRITE, body)[0] == 0

    def dma_map(self, address, size, fds=(), offset=0, flags=3):
        return self.request(DMA_MAP, struct.pack("<IIQQQ", 32, flags, offset, address, size),
                            fds)[0]

    def dma_unmap(self, address, size, flags=0):
        return self.request(DMA_UNMAP, struct.pack("<IIQQ", 24, flags, address, size))[0]

    def set_irqs(self, flags, start, count, fds=(), index=MSIX, data=b""):
        body = struct.pack("<IIIII", 20 + len(data), flags, index, start, count) + data
        return self.request(SET_IRQS, body, fds)[0]

    def guest(self):
        """A guest with memory behind this client, its device a bus master."""
        g = Guest(self.write, self.read)
        assert self.dma_map(0, RAM, [g.fd]) == 0
        self.write(CONFIG, 4, 6, 2)
        return g
