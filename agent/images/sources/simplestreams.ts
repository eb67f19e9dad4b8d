import { Type, type Static } from 'typebox'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { BerthError } from '../../../shared/errors.js'

/** A file that an image server offers. */
export interface StreamItem {
  readonly url: string
  readonly sha256: string
  readonly sizeBytes: number
  /** The server's name of the version. Names of later versions sort after names of earlier versions. */
  readonly version: string
}

export interface StreamQuery {
  /** Distribution of an image. The image's full name has the form `debian:bookworm:amd64:default`. */
  readonly distro: string
  readonly release: string
  readonly arch: string
  readonly variant: string
  /** Kind of file, for example `root.tar.xz` or `disk-kvm.img`. */
  readonly fileType: string
}

const ItemSchema = Type.Object({
  ftype: Type.String(),
  path: Type.String({ maxLength: 1000 }),
  sha256: Type.Optional(Type.String()),
  size: Type.Optional(Type.Number()),
})
const ProductsSchema = Type.Object({
  products: Type.Record(
    Type.String(),
    Type.Object({
      versions: Type.Record(Type.String(), Type.Object({ items: Type.Record(Type.String(), ItemSchema) })),
    }),
  ),
})
type Products = Static<typeof ProductsSchema>

let compiled: ValidateFunction<Products> | undefined

/**
 * Compilation and validation would delay each start of an agent. Therefore the check is compiled at its first use, and
 * its schema is not validated.
 */
function isProducts(value: unknown): value is Products {
  compiled ??= new Ajv2020({ validateSchema: false }).compile<Products>(ProductsSchema)
  return compiled(value)
}

/**
 * Finds the newest version of an image in a server's `streams/v1/images.json`, in Ubuntu's simplestreams format.
 * @param base URL of the server, to which all files must belong
 * @throws {BerthError} `image_server_invalid`, or `release_missing`
 */
export function findStreamItem(text: string, base: string, query: StreamQuery): StreamItem {
  const { products } = parseProducts(text)
  const name = [query.distro, query.release, query.arch, query.variant].join(':')
  const versions = Object.entries(Object.hasOwn(products, name) ? (products[name]?.versions ?? {}) : {})
  for (const [version, { items }] of versions.sort(([a], [b]) => (a < b ? 1 : -1))) {
    const item = Object.values(items).find(({ ftype }) => ftype === query.fileType)
    if (!item) continue
    if (!/^[0-9a-f]{64}$/i.test(item.sha256 ?? '')) throw invalid(`${name} has no SHA-256`)
    return {
      url: resolveOn(base, item.path),
      sha256: item.sha256 ?? '',
      sizeBytes: item.size ?? 0,
      version,
    }
  }
  throw new BerthError(
    'unavailable',
    'release_missing',
    `the image server ${base} has no file of type ${query.fileType} for ${name}`,
  )
}

function parseProducts(text: string): Static<typeof ProductsSchema> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw invalid('it is not JSON', cause)
  }
  if (!isProducts(value)) throw invalid('it contains no valid products')
  return value
}

/** Returns the URL of a relative path. Refuses a path that leads to another server or above `base`. */
function resolveOn(base: string, path: string): string {
  const root = `${base.replace(/\/+$/, '')}/`
  const url = new URL(path, root).href
  if (!url.startsWith(root)) throw invalid(`a path leads outside the server: ${path.slice(0, 200)}`)
  return url
}

function invalid(message: string, cause?: unknown): BerthError {
  return new BerthError(
    'unavailable',
    'image_server_invalid',
    `the list of the image server is not valid: ${message}`,
    {
      cause,
    },
  )
}
