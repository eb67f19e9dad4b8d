import { expect } from 'chai'
import { DescribeArchiveRequest } from '../../proto/gen/berth/agent/v1/archive.js'
import { waitFor } from '../../test/support/wait.js'
import { createDescribeArchive } from './describe-archive.js'

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('the description of an archive', () => {
  const request = DescribeArchiveRequest.create({ head: Buffer.alloc(10) })
  const { signal } = new AbortController()

  it('is refused if the beginning of the archive is too long', async () => {
    const describeArchive = createDescribeArchive({ readManifest: () => Promise.reject(new Error('read')) })
    const head = Buffer.alloc(512 * 1024 + 1)
    const refused = await errorOf(describeArchive({ ...request, head }, signal))
    expect(refused).to.include({ code: 'invalid_field', field: 'head' })
  })

  it('is read for two archives at the same time; a canceled call no longer waits', async () => {
    const reads: (() => void)[] = []
    const readManifest = (): Promise<undefined> => new Promise((resolve) => void reads.push(() => resolve(undefined)))
    const describeArchive = createDescribeArchive({ readManifest })
    const first = errorOf(describeArchive(request, signal))
    void errorOf(describeArchive(request, signal))
    const canceled = new AbortController()
    const waiting = errorOf(describeArchive(request, canceled.signal))
    const last = errorOf(describeArchive(request, signal))
    await waitFor(() => reads.length === 2, { what: 'two reads' })
    const reason = new Error('canceled')
    canceled.abort(reason)
    expect(await waiting).to.equal(reason)
    expect(reads).to.have.length(2)
    reads[0]!()
    expect(await first).to.have.property('code', 'image_invalid')
    await waitFor(() => reads.length === 3, { what: 'the last read' })
    reads[2]!()
    expect(await last).to.have.property('code', 'image_invalid')
  })
})
