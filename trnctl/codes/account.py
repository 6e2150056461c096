"""Codes of findings that compare a cluster file with the AWS account."""

from __future__ import annotations

from trnctl.findings import Level

ACCOUNT: tuple[tuple[str, Level, str, str], ...] = (
    ("quota-short", "error", "The account's quota of vCPUs is below what all nodes together need: the fleet would stall half-way.", "Ask for more in Service Quotas, in this region; or lower MaxCount."),
    ("zone-without-type", "error", "The availability zone of a queue's subnet does not offer its instance type.", "Choose a subnet in one of the zones that the finding names."),
    ("zone-type-nowhere", "error", "The region does not offer the instance type at all.", "Choose another region or type."),
    ("subnet-not-found", "error", "There is no such subnet in this region.", "Check the id and the region: trnctl network show."),
    ("subnets-of-several-vpcs", "error", "The subnets are of several VPCs.", "Choose subnets of one VPC."),
    ("subnet-addresses-short", "error", "The subnet has fewer free addresses than the fleet needs.", "Use a larger subnet, or lower MaxCount."),
    ("subnet-gives-public-ips", "error", "The subnet gives every instance a public address, which EC2 refuses for instances with several network interfaces.", "Use a private subnet with a NAT gateway (trnctl network create), or switch its automatic addresses off."),
    ("no-route-out", "error", "A subnet has no way to AWS's services: nodes would start and never report back.", "Add a NAT gateway (trnctl network create), or endpoints for S3, DynamoDB, EC2 and CloudFormation."),
    ("endpoints-missing", "error", "An isolated subnet lacks endpoints that nodes need to start.", "Add the endpoints that the finding names, or a NAT gateway."),
    ("head-without-address", "error", "The head node's subnet is public, and the head node would have no public address.", "Write ElasticIp: true, switch the subnet's automatic addresses on, or use a private subnet."),
    ("vpc-dns-off", "error", "DNS support or DNS host names are off in the VPC: nodes could not find each other.", "Switch both on: aws ec2 modify-vpc-attribute."),
    ("security-group-not-found", "error", "There is no such security group in this region.", "Check the id and the region."),
    ("efa-group-no-self", "error", "No security group of the nodes allows all traffic to and from itself, which EFA needs in both directions; an open CIDR is not enough.", "Add two rules to the group: all traffic from itself, all traffic to itself."),
    ("key-not-found", "error", "There is no such key pair in this region.", "Make it: aws ec2 create-key-pair --key-type ed25519."),
    ("key-type", "error", "Ubuntu 22.04 and newer refuse RSA keys.", "Make an ed25519 key pair and name it."),
    ("reservation-not-found", "error", "There is no such capacity reservation in this region.", "Check the id and the region."),
    ("reservation-mismatch", "error", "The capacity reservation is for another type, zone, platform or kind.", "Name a reservation that matches, or change the queue to match it."),
    ("reservation-ended", "error", "The capacity reservation is no longer there to be used.", "Name one that is active."),
    ("reservation-ends-soon", "warning", "The capacity reservation ends soon; instances of a capacity block end 30 minutes earlier.", "Finish before it ends, or reserve anew."),
    ("reservation-small", "error", "The queues ask for more instances than the capacity reservation has.", "Lower MaxCount to what it has."),
    ("image-not-found", "error", "There is no such image in this region, or it is not shared with this account.", "Check the id and the region."),
    ("image-untagged", "warning", "The image carries no mark of ParallelCluster: if it was not built by it, creation fails after an hour without a word.", "Build it with pcluster build-image (trnctl image build)."),
    ("image-version", "error", "The image was built by another version of ParallelCluster.", "Use that version, or build the image anew."),
    ("image-os", "error", "The image is of another operating system.", "Name an image of the system that the file names."),
    ("image-not-ready", "error", "The image was not built to its end.", "Look at its build: pcluster describe-image."),
    ("root-volume-too-small", "error", "The root volume is smaller than the image.", "Write a larger Size, or leave it out."),
    ("file-system-adoptable", "info", "A file system of an earlier cluster of this name is still there, with its data.", "Mount it by its id instead of making a new one."),
    ("permission-denied", "error", "The credentials may not do what creating this cluster takes.", "Ask for the rights: trnctl doctor --policy prints them."),
    ("not-checked", "info", "AWS did not answer a question, so that something was not checked.", "Ask for the right to read it, or check it by hand."),
)  # fmt: skip
