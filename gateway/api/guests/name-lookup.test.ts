import { expect } from 'chai'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NameLookup } from './name-lookup.js'

describe('a name lookup', () => {
  let server: Socket
  let queries: number
  let answers: boolean
  let servers: string[]
  let directory: string
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-names-'))
    server = createSocket('udp4', (query, from) => {
      queries++
      if (answers) server.send(answerTo(query), from.port, from.address)
    }).bind(0, '127.0.0.1')
    await once(server, 'listening')
    servers = [`127.0.0.1:${server.address().port}`]
  })
  after(async () => {
    server.close()
    await rm(directory, { recursive: true })
  })
  beforeEach(() => {
    queries = 0
    answers = true
  })

  it('answers concurrent requests with one query, and caches the answer', async () => {
    const names = new NameLookup({ timeoutMs: 5000, keepMs: 60_000, keep: 10, servers })
    const all = await Promise.all(Array.from({ length: 100 }, () => names.resolve('one.example')))
    expect(all.every((found) => found.join() === '192.0.2.7')).to.equal(true)
    await names.resolve('one.example')
    expect(queries, 'A and AAAA').to.equal(2)
  })

  it('uses the hosts file before DNS', async () => {
    const hostsFile = join(directory, 'hosts')
    await writeFile(hostsFile, '192.0.2.8 a A.example # b\n2001:db8::8\ta.example\n')
    const names = new NameLookup({ timeoutMs: 5000, keepMs: 60_000, keep: 2, servers, hostsFile })
    expect(await names.resolve('a.example')).to.deep.equal(['192.0.2.8', '2001:db8::8'])
    expect(queries).to.equal(0)
    expect(await names.resolve('b')).to.deep.equal(['192.0.2.7'])
  })

  it('returns nothing if no answer arrives in time, and pauses its queries for this name afterwards', async () => {
    answers = false
    const names = new NameLookup({ timeoutMs: 200, keepMs: 60_000, keep: 10, servers })
    expect(await names.resolve('one.example')).to.deep.equal([])
    const asked = queries
    expect(await names.resolve('one.example')).to.deep.equal([])
    expect(queries).to.equal(asked)
  })

  it('drops the answers for the oldest names if the cache is full', async () => {
    const names = new NameLookup({ timeoutMs: 5000, keepMs: 60_000, keep: 2, servers })
    for (const name of ['a.example', 'b.example', 'c.example', 'c.example', 'a.example']) await names.resolve(name)
    expect(queries / 2).to.equal(4)
  })
})

/** Answers a DNS query: 192.0.2.7 for type A, no records for other types. Source: RFC 1035, section 4.1 */
function answerTo(query: Buffer): Buffer {
  const end = query.indexOf(0, 12) + 5
  const isA = query.readUInt16BE(end - 4) === 1
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7])
  return Buffer.concat([head, query.subarray(12, end), ...(isA ? [record] : [])])
}
