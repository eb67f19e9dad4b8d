import { Type } from 'typebox'
import { section } from './fields.js'

export const imagesSchema = Type.Object(
  {
    /** Debian mirror from which images are built. */
    debian_mirror: Type.String({
      default: 'http://deb.debian.org/debian',
      pattern: '^https?://[^\\s"\'\\\\]+$',
    }),
    /** Server of images that are not built on this host. It must speak the simplestreams protocol. */
    server: Type.String({
      default: 'https://images.linuxcontainers.org',
      pattern: '^https?://[^\\s"\'\\\\]+$',
    }),
    /** True if downloads of images by http are allowed, too. */
    allow_http: Type.Boolean({ default: false }),
    /** Addresses and CIDRs from which downloads are allowed although they are private, special or the host's own. */
    allowed_targets: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}(/\\d{1,3})?$' }), {
      default: [],
      maxItems: 256,
    }),
    /** Maximum size in GiB of a downloaded image file. */
    max_download_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 20 }),
    /** Maximum size in GiB of an unpacked image. */
    max_image_gb: Type.Integer({ minimum: 1, maximum: 65536, default: 40 }),
    /** Directory for image files of administrators, with the URL `upload:NAME`. Empty: `uploads` in `state_dir`. */
    uploads: Type.String({ default: '', pattern: '^(/[^\\0]+)?$' }),
    /** Ids of templates whose images are created when the agent starts, instead of at their first use. */
    prefetch: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9.-]{0,62}$' }), { default: [] }),
  },
  section,
)
