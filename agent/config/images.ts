import { Type } from 'typebox'
import { section } from './fields.js'

export const imagesSchema = Type.Object(
  {
    /** Debian mirror for building images. */
    debian_mirror: Type.String({
      default: 'http://deb.debian.org/debian',
      pattern: '^https?://[^\\s"\'\\\\]+$',
    }),
    /** Server of images that are not built on this host; speaks simplestreams. */
    server: Type.String({
      default: 'https://images.linuxcontainers.org',
      pattern: '^https?://[^\\s"\'\\\\]+$',
    }),
    /** True: images may be downloaded by http, too. */
    allow_http: Type.Boolean({ default: false }),
    /** Addresses and CIDRs that images may be downloaded from although they are private, special or this host's. */
    allowed_targets: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}(/\\d{1,3})?$' }), {
      default: [],
      maxItems: 256,
    }),
    /** Maximum size of a downloaded image file. */
    max_download_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 20 }),
    /** Maximum size of an unpacked image. */
    max_image_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 40 }),
    /**
     * Directory to which administrators copy image files; their URL is `upload:NAME`. Empty: `uploads` in the state
     * directory.
     */
    uploads: Type.String({ default: '', pattern: '^(/[^\\0]+)?$' }),
    /** Templates whose images are created at start instead of at their first use. */
    prefetch: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,62}$' }), { default: [] }),
  },
  section,
)
