import { expect } from 'chai'
import { PassThrough } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../../../../test/support/wait.js'
import { ArchiveBody, type MinimumSpeed } from './archive-body.js'

const patient: MinimumSpeed = { windowMs: 600_000, bytes: 1, averageAfterMs: 600_000, averageBytes: 1 }

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

async function readAll(body: ArchiveBody): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of body.parts()) parts.push(part)
  return Buffer.concat(parts)
}

describe('the archive in the body of a request', () => {
  let client: PassThrough
  beforeEach(() => void (client = new PassThrough()))
  afterEach(() => void client.destroy())

  it('is read completely, after its head was read', async () => {
    const archive = Buffer.alloc(2_000_000, 'content')
    for (let at = 0; at < archive.length; at += 10_000) client.write(archive.subarray(at, at + 10_000))
    client.end()
    const body = new ArchiveBody(client, patient)
    const head = await body.head()
    expect(head.length).to.equal(256 * 1024)
    expect(archive.subarray(0, head.length).equals(head)).to.equal(true)
    expect((await readAll(body)).equals(archive)).to.equal(true)
    expect(body.receivedBytes).to.equal(archive.length)
    expect(body.signal.aborted).to.equal(false)
  })

  it('can be shorter than its head', async () => {
    client.end('short')
    const body = new ArchiveBody(client, patient)
    expect((await body.head()).toString()).to.equal('short')
    expect((await readAll(body)).toString()).to.equal('short')
  })

  it('is refused if the client sends nothing', async () => {
    const body = new ArchiveBody(client, { ...patient, windowMs: 1 })
    expect(await errorOf(body.head())).to.have.property('code', 'request_timeout')
  })

  it('is refused if the client sends too little in a window', async () => {
    client.write('few')
    const body = new ArchiveBody(client, { ...patient, windowMs: 1, bytes: 4 })
    const error = await errorOf(body.head())
    expect(error).to.have.property('code', 'request_timeout')
    expect(error).to.have.property('message').that.contains('at least 4 bytes')
  })

  it('is accepted after any number of windows in which the client has sent enough', async () => {
    const body = new ArchiveBody(client, { ...patient, windowMs: 1, bytes: 0 })
    const head = body.head()
    await delay(20)
    client.end('late')
    expect((await head).toString()).to.equal('late')
  })

  it('is refused if the client is too slow on average', async () => {
    const body = new ArchiveBody(client, { ...patient, averageAfterMs: 1, averageBytes: 1e9 })
    const head = errorOf(body.head())
    const timer = setInterval(() => client.write('part'), 2)
    expect(await head)
      .to.have.property('message')
      .that.contains('bytes per second on average')
    clearInterval(timer)
  })

  it('fails, and aborts its signal, when the client disconnects', async () => {
    const body = new ArchiveBody(client, patient)
    const head = errorOf(body.head())
    client.write('part')
    await waitFor(() => body.receivedBytes === 4, { what: 'the part to arrive' })
    client.destroy()
    expect(await head).to.have.property('code', 'invalid_body')
    await waitFor(() => body.signal.aborted, { what: 'the signal' })
  })
})
