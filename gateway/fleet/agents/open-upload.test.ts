import { Metadata, status } from '@grpc/grpc-js'
import { expect } from 'chai'
import { Duplex } from 'node:stream'
import type { ReceiveArchiveRequest, ReceiveArchiveResponse } from '../../../proto/gen/berth/agent/v1/archive.js'
import { waitFor } from '../../../test/support/wait.js'
import { openUpload, type OpenUploadParts } from './open-upload.js'

const begin = { id: 'b5a0b5f4-6f1c-4bb4-9d0e-6c2f5a5f3c11', bytes: 0 }

/** The call of an agent that takes no data after its first messages. */
class FakeCall extends Duplex {
  readonly messages: ReceiveArchiveRequest[] = []
  isCanceled = false

  constructor(private readonly taken = Infinity) {
    super({ objectMode: true, writableHighWaterMark: 1 })
  }

  override _read(): void {}

  override _write(message: ReceiveArchiveRequest, _encoding: string, done: () => void): void {
    this.messages.push(message)
    if (this.messages.length <= this.taken) done()
  }

  answer(state: ReceiveArchiveResponse['state']): void {
    this.push({ state })
  }

  /** Ends the call as grpc-js does. */
  fail(code: status, details: string, berthCode = ''): void {
    const metadata = new Metadata()
    if (berthCode) metadata.set('berth-code', berthCode)
    this.emit('error', Object.assign(new Error(details), { code, details, metadata }))
  }

  cancel(): void {
    this.isCanceled = true
    this.fail(status.CANCELLED, 'Cancelled on client')
  }
}

function partsOf(
  call: FakeCall,
  limits: Pick<OpenUploadParts, 'wantedMs'> & { timeoutMs?: number } = {},
): OpenUploadParts {
  const connection = { archiveStreams: { receiveArchive: () => call }, holdArchives: () => undefined }
  return {
    connection,
    link: { whileOnline: () => () => undefined },
    timeoutMs: 600_000,
    ...limits,
  } as unknown as OpenUploadParts
}

async function* archive(): AsyncGenerator<Buffer> {
  for (;;) yield Buffer.alloc(64 * 1024)
}

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('an upload to an agent', () => {
  it('says that the host does not answer if the agent does not accept the upload in time', async () => {
    const call = new FakeCall()
    const error = await errorOf(openUpload(partsOf(call, { timeoutMs: 1 }), begin))
    expect(error).to.include({ code: 'agent_timeout', message: 'the host does not answer' })
    expect(call.isCanceled).to.equal(true)
  })

  it('ends if the agent does not request the archive in time', async () => {
    const call = new FakeCall()
    call.answer({ $case: 'accepted', value: {} })
    const upload = await openUpload(partsOf(call, { wantedMs: 1 }), begin)
    const error = await errorOf(upload.send(archive(), new AbortController().signal))
    expect(error).to.include({ code: 'agent_timeout', message: 'the host did not receive the archive in time' })
  })

  it('passes on the error of an agent that fails while it takes no data', async () => {
    const call = new FakeCall(2)
    call.answer({ $case: 'accepted', value: {} })
    const upload = await openUpload(partsOf(call), begin)
    call.answer({ $case: 'wanted', value: {} })
    const sent = errorOf(upload.send(archive(), new AbortController().signal))
    await waitFor(() => call.messages.length > 2, { what: 'the upload to wait for the agent' })
    call.fail(status.INVALID_ARGUMENT, 'the archive is damaged', 'image_invalid')
    expect(await sent).to.include({ kind: 'invalid', code: 'image_invalid', message: 'the archive is damaged' })
  })

  it('reports agent_timeout if the connection breaks while the agent takes no data', async () => {
    const call = new FakeCall(2)
    call.answer({ $case: 'accepted', value: {} })
    const upload = await openUpload(partsOf(call), begin)
    call.answer({ $case: 'wanted', value: {} })
    const sent = errorOf(upload.send(archive(), new AbortController().signal))
    await waitFor(() => call.messages.length > 2, { what: 'the upload to wait for the agent' })
    call.fail(status.UNAVAILABLE, 'Connection dropped')
    expect(await sent).to.include({ kind: 'timeout', code: 'agent_timeout' })
  })
})
