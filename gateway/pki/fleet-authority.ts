import { readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BerthError } from '../../shared/errors.js'
import { syncDirectory, writeFileAtomic } from '../../shared/files.js'
import type { Identity } from '../../shared/identity.js'
import {
  createAuthorityPem,
  ensureAuthority,
  loadAuthority,
  type Authority,
  type IssuedCertificate,
  type KeyedCertificate,
} from './authority.js'

/** File with the key and certificate of the CA that will replace the CA in `authority.pem`. */
export const nextAuthorityFile = 'next-authority.pem'

/**
 * The CA of the fleet and, during a rotation, the next CA. Both CAs are trusted while their files exist, even if the
 * store has lost the state of the rotation. As an `Authority`, this object is the CA with which hosts and gateways
 * join.
 */
export class FleetAuthority implements Authority {
  #next: Authority | undefined
  #joinsWithNext = false
  readonly #listeners: (() => Promise<void>)[] = []

  private constructor(
    private readonly directory: string,
    private present: Authority,
  ) {}

  /** Reads the CAs in `directory`. Creates the first CA if it does not exist. */
  static async open(directory: string, caDays: number): Promise<FleetAuthority> {
    const opened = new FleetAuthority(directory, await ensureAuthority(directory, caDays))
    const pem = await readFile(opened.#nextPath, 'utf8').catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return undefined
      throw cause
    })
    if (pem !== undefined) opened.#next = await loadAuthority(pem, opened.#nextPath)
    return opened
  }

  /** The CA that is in `authority.pem`. */
  get first(): Authority {
    return this.present
  }

  /** The CA that will replace the present CA. undefined: no next CA is prepared. */
  get next(): Authority | undefined {
    return this.#next
  }

  /** All trusted CAs. */
  get trusted(): readonly Authority[] {
    return this.#next ? [this.present, this.#next] : [this.present]
  }

  /** True if hosts join with the next CA. */
  get joinsWithNext(): boolean {
    return this.#joinsWithNext
  }

  /** Returns the trusted CA with this fingerprint. Without a match, returns the first CA. */
  of(fingerprint: string | undefined): Authority {
    return this.trusted.find((authority) => authority.fingerprint === fingerprint) ?? this.present
  }

  /** Creates the next CA, unless an interrupted attempt has already created one. */
  async ensureNext(caDays: number): Promise<Authority> {
    return this.#next ?? this.installNext(await createAuthorityPem(caDays))
  }

  /**
   * Stores the next CA.
   * @param pem key and certificate of the next CA
   * @param fingerprint expected fingerprint; absent: any
   * @throws {BerthError} `bad_authority`
   */
  async installNext(pem: string, fingerprint?: string): Promise<Authority> {
    const next = await loadAuthority(pem, this.#nextPath)
    if (fingerprint !== undefined && next.fingerprint !== fingerprint)
      throw new BerthError(
        'internal',
        'bad_authority',
        'the received certificate authority does not have the expected fingerprint',
      )
    await writeFileAtomic(this.#nextPath, pem, 0o600)
    this.#next = next
    return next
  }

  /** Calls the listener, and waits for it, when hosts begin to join with another CA. */
  onSwitch(listener: () => Promise<void>): void {
    this.#listeners.push(listener)
  }

  /** Chooses the CA with which hosts and gateways join. */
  async joinWithNext(joinsWithNext: boolean): Promise<void> {
    if (this.#joinsWithNext === joinsWithNext) return
    this.#joinsWithNext = joinsWithNext
    for (const listener of this.#listeners) await listener()
  }

  /** Ends the trust in the first CA. Does nothing if the next CA has another fingerprint. */
  async replaceByNext(fingerprint: string): Promise<void> {
    if (this.#next?.fingerprint !== fingerprint) return
    await rename(this.#nextPath, join(this.directory, 'authority.pem'))
    await syncDirectory(this.directory)
    this.present = this.#next
    this.#next = undefined
    await this.joinWithNext(false)
  }

  /** Deletes the next CA. Does nothing if the next CA has another fingerprint. */
  async discardNext(fingerprint: string): Promise<void> {
    if (this.#next?.fingerprint !== fingerprint) return
    await rm(this.#nextPath, { force: true })
    await syncDirectory(this.directory)
    this.#next = undefined
  }

  get #nextPath(): string {
    return join(this.directory, nextAuthorityFile)
  }

  get #joining(): Authority {
    return this.#joinsWithNext && this.#next ? this.#next : this.present
  }

  get caPem(): string {
    return this.#joining.caPem
  }

  get fingerprint(): string {
    return this.#joining.fingerprint
  }

  get notAfterMs(): number {
    return this.#joining.notAfterMs
  }

  get privateKeyPem(): string {
    return this.#joining.privateKeyPem
  }

  get publicKeyPem(): string {
    return this.#joining.publicKeyPem
  }

  signRequest(...request: Parameters<Authority['signRequest']>): Promise<IssuedCertificate> {
    return this.#joining.signRequest(...request)
  }

  certify(publicKey: Buffer, identity: Identity, lifetimeMs: number): Promise<IssuedCertificate> {
    return this.#joining.certify(publicKey, identity, lifetimeMs)
  }

  issue(identity: Identity, lifetimeMs: number, privateKeyPem?: string): Promise<KeyedCertificate> {
    return this.#joining.issue(identity, lifetimeMs, privateKeyPem)
  }
}
