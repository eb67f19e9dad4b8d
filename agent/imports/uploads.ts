import { BerthError, conflict, invalidField } from '../../shared/errors.js'

/** Maximum number of archives that a host receives at the same time. */
const mostUploads = 2

export interface UploadOrder {
  /** Uuid of the import, which is also the id of the operation that creates the guest. */
  readonly id: string
  /** Length of the archive in bytes. 0: not known. */
  readonly bytes: number
  /** Parts of the archive. Rejects if the archive is not complete. */
  readonly parts: AsyncIterable<Buffer>
}

/** An archive that a gateway sends. */
export class Upload {
  /** Resolves when the creation of the guest needs the archive. Rejects if the upload fails before. */
  readonly wanted: Promise<void>
  /** Resolves when all files are on the disk of the guest, and the disk is durable. Rejects if the upload fails. */
  readonly unpacked: Promise<void>
  readonly #end = new AbortController()
  #want = (): void => undefined
  #finish = (): void => undefined
  #isTaken = false

  constructor(readonly order: UploadOrder) {
    this.wanted = this.#untilFailed((resolve) => (this.#want = resolve))
    this.unpacked = this.#untilFailed((resolve) => (this.#finish = resolve))
  }

  /** Aborted when the upload has failed. */
  get signal(): AbortSignal {
    return this.#end.signal
  }

  /** Requests the archive, which can be read only once. @throws {BerthError} `import_interrupted` */
  take(): AsyncIterable<Buffer> {
    if (this.#isTaken) throw interrupted()
    this.signal.throwIfAborted()
    this.#isTaken = true
    this.#want()
    return this.order.parts
  }

  /**
   * Resolves `unpacked` when `keep` has made the disk durable. Does not call `keep` if the upload has failed before.
   * Rejects if the upload fails meanwhile, because its sender then does not expect a guest.
   * @throws {BerthError} the error with which the upload has failed; the error of `keep`
   */
  async complete(keep: () => Promise<void>): Promise<void> {
    try {
      this.signal.throwIfAborted()
      await keep()
      this.signal.throwIfAborted()
    } catch (error) {
      this.fail(error)
      throw error
    }
    this.#finish()
  }

  /** Ends the upload. Has no effect on an upload that has ended. */
  fail(error: unknown): void {
    this.#end.abort(error)
  }

  /** Returns a promise that rejects when the upload fails. */
  #untilFailed(open: (resolve: () => void) => void): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      open(resolve)
      this.signal.addEventListener('abort', () => reject(this.signal.reason as Error), { once: true })
    })
    promise.catch(() => undefined) // nobody may be waiting for it
    return promise
  }
}

/** The archives that gateways send now. They are not in the journal, because an archive cannot be sent again. */
export class Uploads {
  readonly #open = new Map<string, Upload>()

  /** Accepts an archive. The caller must call `close`. @throws {BerthError} `invalid_field`, `resource_exhausted` */
  open(order: UploadOrder): Upload {
    if (this.#open.has(order.id)) throw invalidField('id', 'id: another archive with this id is being received')
    if (this.#open.size >= mostUploads)
      throw conflict(
        'resource_exhausted',
        `the host can receive at most ${mostUploads} archives at the same time: wait for the end of another import`,
      )
    const upload = new Upload(order)
    this.#open.set(order.id, upload)
    return upload
  }

  find(id: string): Upload | undefined {
    return this.#open.get(id)
  }

  /** Forgets an archive. If it is not unpacked yet, the creation of its guest fails. */
  close(upload: Upload): void {
    upload.fail(interrupted())
    if (this.#open.get(upload.order.id) === upload) this.#open.delete(upload.order.id)
  }
}

/** Error for an archive whose rest cannot arrive any more. */
export function interrupted(cause?: unknown): BerthError {
  const message = 'the archive was not received completely, so its container was not created: import it again'
  return new BerthError('conflict', 'import_interrupted', message, { cause })
}
