import { createHash, randomBytes } from 'node:crypto'
import type { lookup } from 'node:dns'
import { existsSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { download } from '../../agent/images/sources/download.js'
import type { DownloadOrder, DownloadProgress } from '../../agent/images/sources/transfer.js'
import { closing, startRawServer, type RawServer } from '../support/raw-server.js'
import { scratchDirectory } from '../support/scratch.js'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

describe('downloads of images', function () {
  const scratch = scratchDirectory('btest-download')
  const content = randomBytes(3_000_000)
  const sha256 = createHash('sha256').update(content).digest('hex')
  const never = new AbortController().signal
  const loopback = { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'images.allowed_targets' }
  let server: Server
  let answer: Answer
  let asked: { url: string; range: string | undefined }[]
  let base: string
  let file: string
  let count = 0

  before(async () => {
    server = createServer((request, response) => {
      asked.push({ url: request.url ?? '', range: request.headers.range })
      answer(request, response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  after(() => {
    server.closeAllConnections()
    server.close()
    scratch.wipe()
  })
  beforeEach(() => {
    asked = []
    file = `${scratch.path}/file-${count++}`
    answer = serve({})
  })

  /** Answers range requests correctly. @param cutAfter bytes after which each connection ends */
  function serve({ cutAfter = Infinity, etag = '"v1"', body = content }): Answer {
    return (request, response) => {
      const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
      const partial = from > 0 && request.headers['if-range'] === etag
      const part = partial ? body.subarray(from) : body
      response.writeHead(partial ? 206 : 200, {
        etag,
        'content-length': part.length,
        ...(partial ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}),
      })
      if (part.length <= cutAfter) return response.end(part)
      response.write(part.subarray(0, cutAfter), () => setImmediate(() => response.destroy()))
    }
  }
  function get(
    order: Partial<DownloadOrder> = {},
    { signal = never, report = (_: DownloadProgress): void => undefined, policy = loopback, names = {} } = {},
  ): Promise<string> {
    const wanted = { url: `${base}/image`, sha256, maxBytes: 10_000_000, file, ...order }
    return download(wanted, { policy, pauseMs: 10, ...names }, report, signal).then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    )
  }
  const isWhole = (): boolean => existsSync(file) && readFileSync(file).equals(content)

  it('are complete, and report their progress', async () => {
    const reports: DownloadProgress[] = []
    expect(await get({}, { report: (progress) => reports.push(progress) })).to.equal('done')
    expect(isWhole()).to.equal(true)
    expect(reports.at(-1)).to.include({ receivedBytes: content.length, totalBytes: content.length })
  })

  it('resume each time the connection ends too early', async () => {
    answer = serve({ cutAfter: 1_000_000 })
    expect(await get()).to.equal('done')
    expect(isWhole()).to.equal(true)
    expect(asked.length).to.be.greaterThan(2)
    expect(asked.slice(1).every(({ range }) => range !== undefined)).to.equal(true)
  })

  describe('from a fast server that ends each connection after its answer', () => {
    const large = randomBytes(24_000_000)
    const cut = large.subarray(0, 20_000_000)
    const length = `Content-Length: ${large.length}`
    const chunked = 'Transfer-Encoding: chunked'
    const order = { sha256: createHash('sha256').update(large).digest('hex'), maxBytes: 2 ** 30 }
    const chunk = (body: Buffer): Buffer =>
      Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')])

    let raw: RawServer
    afterEach(() => raw.close())

    for (const [what, head, body, outcome] of [
      ['are complete if their length was announced', length, large, 'done'],
      ['are complete if their length is unknown', 'Server: x', large, 'done'],
      [
        'are complete if they use chunked encoding',
        chunked,
        Buffer.concat([chunk(large), Buffer.from('0\r\n\r\n')]),
        'done',
      ],
      ['fail if they are shorter than announced', length, cut, 'download_failed'],
      ['fail if the last chunk is missing', chunked, chunk(large), 'download_failed'],
      ['are rejected by their checksum if their end is missing', 'Server: x', cut, 'checksum_mismatch'],
    ] as const)
      it(what, async () => {
        raw = await startRawServer(closing(`200 OK\r\n${head}`, body))
        expect(await get({ ...order, url: raw.url })).to.equal(outcome)
        expect(existsSync(file) && readFileSync(file).equals(large), 'whole').to.equal(outcome === 'done')
      })
  })

  it('load only the missing part at the next attempt after a cancellation', async () => {
    const stop = new AbortController()
    answer = (_, response) => {
      response.writeHead(200, { etag: '"v1"', 'content-length': content.length })
      response.write(content.subarray(0, 1_000_000))
    }
    const report = ({ receivedBytes }: DownloadProgress): void => {
      if (receivedBytes >= 1_000_000) stop.abort(new Error('canceled'))
    }
    expect(await get({}, { signal: stop.signal, report })).to.match(/cancel|abort/)
    const kept = statSync(file).size
    expect(kept).to.be.greaterThan(0).and.at.most(1_000_000)
    answer = serve({})
    expect(await get()).to.equal('done')
    expect(asked.at(-1)?.range).to.equal(`bytes=${kept}-`)
    expect(isWhole()).to.equal(true)
  })

  it('start again from the beginning if the file on the server has changed', async () => {
    answer = serve({ cutAfter: 1_000_000, etag: '"old"', body: randomBytes(3_000_000) })
    server.once('request', () => (answer = serve({})))
    expect(await get()).to.equal('done')
    expect(isWhole()).to.equal(true)
  })

  it('start again from the beginning if the received part is damaged', async () => {
    answer = serve({})
    await get()
    truncateSync(file, 2_000_000)
    writeFileSync(file, randomBytes(1_000_000), { flag: 'r+' })
    expect(await get()).to.equal('done')
    expect(isWhole()).to.equal(true)
  })

  it('are deleted if the checksum is wrong', async () => {
    answer = serve({ body: randomBytes(1000) })
    expect(await get()).to.equal('checksum_mismatch')
    expect(existsSync(file)).to.equal(false)
  })

  it('are aborted if the announced or received size is too large', async () => {
    expect(await get({ maxBytes: 2_000_000 })).to.equal('download_too_large')
    answer = (_, response) => {
      response.writeHead(200)
      for (let sent = 0; sent < 3; sent++) response.write(randomBytes(1_000_000))
    }
    expect(await get({ maxBytes: 2_000_000 })).to.equal('download_too_large')
  })

  it('are rejected before they start if there is not enough free space', async () => {
    answer = (_, response) => void response.writeHead(200, { 'content-length': 2 ** 50 }).write('x')
    expect(await get({ maxBytes: 2 ** 51 })).to.equal('storage_full')
  })

  it('fail immediately if the file is missing, but after several attempts if the server has an error', async () => {
    answer = (_, response) => response.writeHead(404).end()
    expect(await get()).to.equal('download_failed')
    expect(asked).to.have.length(1)
    answer = (_, response) => response.writeHead(503).end()
    expect(await get()).to.equal('download_failed')
    expect(asked.length).to.be.greaterThan(3)
  })

  it('follow only a few redirects, and only to permitted addresses', async () => {
    answer = (request, response) =>
      request.url === '/image' ? response.writeHead(302, { location: '/moved' }).end() : serve({})(request, response)
    expect(await get()).to.equal('done')
    answer = (request, response) => response.writeHead(302, { location: `${request.url}x` }).end()
    expect(await get()).to.equal('download_failed')
    for (const location of [
      'http://127.0.0.2:1/',
      'http://[::1]:1/',
      'http://169.254.169.254/',
      'file:///etc/passwd',
      'http://2130706434/',
      '//10.0.0.1/',
      'ftp://127.0.0.1/',
      'http://user@127.0.0.1/',
      'http://0.0.0.0:1/',
    ]) {
      answer = (_, response) => response.writeHead(302, { location }).end()
      expect(await get({ file: `${file}-r` }), location).to.equal('invalid_field')
    }
  })

  it('never connect to the host itself, even if the URL or a redirect points there', async () => {
    const own = { readOwn: () => ['127.0.0.3', '2001:4860::8'] }
    const open = { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'images.allowed_targets' }
    for (const url of ['http://[2001:4860::8]:9/image', 'http://127.0.0.3:9/']) {
      expect(await get({ url }, { policy: open, names: own }), url).to.equal('invalid_field')
      answer = (_, response) => response.writeHead(302, { location: url }).end()
      expect(await get({ file: `${file}-o` }, { policy: open, names: own }), url).to.equal('invalid_field')
    }
  })

  it('are aborted if the server sends too slowly, even if the server never stops sending', async () => {
    const drips = new Set<NodeJS.Timeout>()
    answer = (_, response) => {
      response.writeHead(200, { 'content-length': content.length, etag: '"v1"' })
      const drip = setInterval(() => response.write('x'), 5)
      drips.add(drip)
      response.once('close', () => clearInterval(drip))
    }
    expect(await get({}, { names: { patienceMs: 50 } })).to.equal('download_failed')
    expect(asked).to.have.length(6)
    for (const drip of drips) clearInterval(drip)
  })

  it('connect only to the checked address of a host name, and to no host name with a forbidden address', async () => {
    const port = new URL(base).port
    const names = (...addresses: string[]): { lookup: typeof lookup } => {
      const resolve = (_: string, __: object, done: (error: null, found: object[]) => void): void =>
        done(
          null,
          addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        )
      return { lookup: resolve as never }
    }
    const url = `http://images.test:${port}/image`
    expect(await get({ url }, { names: names('127.0.0.1') })).to.equal('done')
    asked = []
    for (const list of [['127.0.0.2'], ['127.0.0.1', '10.0.0.1'], ['::1'], ['::ffff:127.0.0.1'], ['169.254.169.254']])
      expect(await get({ url, file: `${file}-n` }, { names: names(...list) }), list.join()).to.equal('invalid_field')
    expect(asked).to.deep.equal([])
  })
})
