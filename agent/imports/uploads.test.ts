import { expect } from 'chai'
import { interrupted, Uploads, type Upload } from './uploads.js'
import { receiveArchive } from './receive-archive.js'

const id = 'b5a0b5f4-6f1c-4bb4-9d0e-6c2f5a5f3c11'

async function* partsOf(...parts: string[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield Buffer.from(part)
}

const open = (uploads = new Uploads()): Upload => uploads.open({ id, bytes: 6, parts: partsOf('abc', 'def') })

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('an archive that a gateway sends', () => {
  const events: string[] = []
  beforeEach(() => events.splice(0))
  const keep = async (): Promise<void> => void events.push('kept')
  const step = {
    signal: new AbortController().signal,
    report: (_fraction: number, stage = '') => void events.push(stage),
  }

  async function receive(upload: Upload, diskBytes = 100): Promise<void> {
    const unpack = async (parts: AsyncIterable<Buffer>): Promise<void> => {
      for await (const part of parts) events.push(part.toString())
    }
    await receiveArchive({ upload, unpack, diskBytes, step })
  }

  it('is complete only when the disk is durable', async () => {
    const upload = open()
    const unpacked = upload.unpacked.then(() => events.push('unpacked'))
    await receive(upload)
    await new Promise(setImmediate)
    await upload.complete(keep)
    await unpacked
    expect(events).to.deep.equal([
      ...['receiving: 50 % of 1 MiB', 'abc', 'receiving: 99 % of 1 MiB', 'def'],
      ...['kept', 'unpacked'],
    ])
  })

  it('does not become a disk if its sender has disconnected after all files were received', async () => {
    const uploads = new Uploads()
    const upload = open(uploads)
    await receive(upload)
    uploads.close(upload)
    expect(await errorOf(upload.complete(keep))).to.have.property('code', 'import_interrupted')
    expect(events).not.to.contain('kept')
  })

  it('is not complete if its sender disconnects while the disk is made durable', async () => {
    const uploads = new Uploads()
    const upload = open(uploads)
    await receive(upload)
    const completed = upload.complete(async () => uploads.close(upload))
    expect(await errorOf(completed)).to.have.property('code', 'import_interrupted')
    expect(await errorOf(upload.unpacked)).to.have.property('code', 'import_interrupted')
  })

  it('reports the error of the last steps to its sender', async () => {
    const upload = open()
    const failed = new Error('no space')
    expect(await errorOf(upload.complete(() => Promise.reject(failed)))).to.equal(failed)
    expect(await errorOf(upload.unpacked)).to.equal(failed)
  })

  it('is refused if it is longer than the disk, and can be read only once', async () => {
    const upload = open()
    expect(await errorOf(receive(upload, 5))).to.have.property('code', 'disk_too_small')
    expect(await errorOf(upload.unpacked)).to.have.property('code', 'disk_too_small')
    const second = open()
    second.take()
    expect(() => second.take()).to.throw(interrupted().message)
  })
})
