import type { KeyedCertificate } from './authority.js'
import type { FleetAuthority } from './fleet-authority.js'
import { GatewayLeaf } from './gateway-leaf.js'

/**
 * The gateway's client certificates, one of each trusted CA. To each host, the gateway shows the certificate of the CA
 * that issued the host's certificate. A host always trusts this CA.
 */
export class GatewayLeaves {
  readonly #leaves = new Map<string, GatewayLeaf>()

  private constructor(
    private readonly authority: FleetAuthority,
    private readonly lifetimeMs: number,
  ) {}

  static async issue(authority: FleetAuthority, lifetimeMs: number): Promise<GatewayLeaves> {
    const leaves = new GatewayLeaves(authority, lifetimeMs)
    await leaves.renewIfDue()
    return leaves
  }

  /**
   * Returns the certificate that the CA with this fingerprint issued. If this CA is not trusted, returns the
   * certificate of the first CA.
   */
  of(fingerprint: string | undefined): KeyedCertificate {
    const leaf = this.#leaves.get(this.authority.of(fingerprint).fingerprint) ?? [...this.#leaves.values()][0]!
    return leaf.current
  }

  /**
   * Issues missing certificates, renews others if needed (see `GatewayLeaf`), and forgets certificates of earlier CAs.
   * @returns serial numbers of the renewed certificates
   */
  async renewIfDue(nowMs = Date.now(), inDoubt = false): Promise<string[]> {
    const { trusted } = this.authority
    const renewed: string[] = []
    for (const authority of trusted) {
      const leaf = this.#leaves.get(authority.fingerprint)
      if (!leaf) this.#leaves.set(authority.fingerprint, await GatewayLeaf.issue(authority, this.lifetimeMs))
      else if (await leaf.renewIfDue(nowMs, inDoubt)) renewed.push(leaf.current.serial)
    }
    const isTrusted = (fingerprint: string): boolean =>
      trusted.some((authority) => authority.fingerprint === fingerprint)
    for (const fingerprint of this.#leaves.keys()) if (!isTrusted(fingerprint)) this.#leaves.delete(fingerprint)
    return renewed
  }
}
