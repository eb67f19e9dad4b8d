import { expect } from 'chai'
import { duplexPair, Readable } from 'node:stream'
import { DiskSender, type SenderPatience } from './disk-sender.js'
import { FrameStream } from './frame-stream.js'

const partBytes = 64 * 1024
const partsCount = 1000

describe('the sender of a disk to another host', () => {
  let partsRead: number
  let target: FrameStream
  let sender: DiskSender

  function* parts() {
    for (; partsRead < partsCount; partsRead++) yield Buffer.alloc(partBytes)
  }

  beforeEach(() => open())

  function open(patience?: SenderPatience): void {
    partsRead = 0
    const [near, far] = duplexPair()
    target = new FrameStream(far)
    const process = () => ({ stream: Readable.from(parts()), ended: Promise.resolve(), kill: () => undefined })
    const options = { uuid: 'u1', bandwidthMbps: 0, onSent: () => undefined, ...(patience && { patience }) }
    sender = new DiskSender(near, { ...options, transfers: { send: process } })
  }

  it('sends all data and waits for the answer of the target', async () => {
    const sent = sender.sendDisk('a', undefined)
    expect(await target.nextMessage()).to.deep.equal({ kind: 'disk', id: 'a' })
    const bytes = partBytes * partsCount
    for (let got = 0; got < bytes;) got += (await target.next()).content.length
    expect(await target.nextMessage()).to.deep.equal({ kind: 'end', bytes })
    await target.send({})
    expect(await sent).to.equal(bytes)
  })

  for (const [answer, code] of [
    [{}, 'bad_stream'],
    [{ error: { code: 'storage_full', message: 'the pool is full' } }, 'storage_full'],
    [{ snapshots: 5 }, 'bad_stream'],
  ] as const)
    it(`stops reading the disk if the target answers ${JSON.stringify(answer)} before all data is sent`, async () => {
      const sent = sender.sendDisk('a', undefined).catch((error: unknown) => error)
      await target.nextMessage()
      await target.send(answer)
      expect(await sent).to.include({ code })
      expect(partsRead).to.be.lessThan(partsCount / 2)
    })

  it('gives up if the target takes no data', async () => {
    open({ takeMs: 50, answerMs: 600_000 })
    const sent = sender.sendDisk('a', undefined).catch((error: unknown) => error)
    expect(await target.nextMessage()).to.include({ kind: 'disk' })
    expect(await sent).to.include({ code: 'target_unreachable', message: 'the target host takes no data' })
  })

  it('gives up if the target does not answer', async () => {
    open({ takeMs: 600_000, answerMs: 50 })
    const listed = sender.list().catch((error: unknown) => error)
    expect(await target.nextMessage()).to.deep.equal({ kind: 'list' })
    expect(await listed).to.include({ code: 'target_unreachable', message: 'the target host does not answer' })
  })
})
